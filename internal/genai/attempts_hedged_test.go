package genai

import (
	"fmt"
	"testing"
)

// TestHTTPChildren_Hedged holds that requests which ran side by side are one attempt, which begins
// with the first of them: neither further attempts, nor a wait of what was answered late.
func TestHTTPChildren_Hedged(t *testing.T) {
	lost := func(id string, from, to float64, o ...any) Span {
		return post(id, "01", from, to, 0, append([]any{StatusError, kv("error.type", "cancelled")}, o...)...)
	}
	up := func(id string, from, to float64, status int, o ...any) Span {
		return post(id, "01", from, to, status, o...)
	}
	for _, c := range []struct {
		name            string
		children        []Span
		want            string // start and end of each attempt
		failed, backoff float64
	}{
		{"the double won", []Span{lost("02", 0, 8.5), up("03", 4, 8, 200)}, "0-10", 0, 0},
		{"the first won", []Span{up("02", 0, 8, 200), lost("03", 4, 8.5)}, "0-10", 0, 0},
		{"the first failed while the double ran", []Span{up("02", 0, 3, 503), up("03", 2, 9, 200)}, "0-10", 0, 0},
		{"three, the last won", []Span{lost("02", 0, 8.2), lost("03", 3, 8.1), up("04", 5, 8, 200)}, "0-10", 0, 0},
		{"three, the middle one won", []Span{lost("02", 0, 8.2), up("03", 3, 8, 200), lost("04", 5, 8.1)}, "0-10", 0, 0},
		{"after a failure, the double won", []Span{up("02", 0, 1, 503), lost("03", 2, 9.8), up("04", 5, 9.5, 200)}, "0-1 2-10", 1, 1},
		{"after a failure, the first won", []Span{up("02", 0, 1, 503), up("03", 2, 9.5, 200), lost("04", 5, 9.6)}, "0-1 2-10", 1, 1},
		{"both failed, then one", []Span{up("02", 0, 3, 503), up("03", 2, 5, 503), up("04", 6, 9, 200)}, "0-5 6-10", 5, 1},
		{"both failed, the first last, then one", []Span{up("02", 0, 5, 503), up("03", 2, 4, 503), up("04", 6, 9, 200)}, "0-5 6-10", 5, 1},
		{"both failed, then both again", []Span{up("02", 0, 5, 503), up("03", 2, 5.5, 503), lost("04", 6, 9.2), up("05", 7, 9, 200)}, "0-5.5 6-10", 5.5, 0.5},
		{"numbered by a header", []Span{up("02", 0, 1, 503, sentCount("0")), lost("03", 2, 9.8, sentCount("1")), up("04", 5, 9.5, 200, sentCount("1"))}, "0-1 2-10", 1, 1},
		{"numbered, both failed", []Span{up("02", 0, 3, 503, sentCount("0")), up("03", 2, 5, 503, sentCount("0")), up("04", 6, 9, 200, sentCount("1"))}, "0-5 6-10", 5, 1},
		// What follows runs side by side and is not hedged.
		{"to another place", []Span{to(up("02", 0, 3, 503), "h", "https://h/count"), up("03", 2, 9, 200)}, "2-10", 0, 0},
		{"both answered", []Span{up("02", 0, 8.5, 200), up("03", 4, 8, 200)}, "4-10", 0, 0},
		{"beside two tries", []Span{lost("02", 0, 9), up("03", 1, 2, 503), up("04", 3, 9, 200)}, "1-2 3-10", 1, 1},
	} {
		for _, order := range [][]Span{c.children, reversed(c.children)} {
			res := analyze(t, append(order, chat("01", "", "m1", 0, 10))...)
			o := one(t, res)
			got := ""
			for _, a := range res.Attempts {
				got += fmt.Sprintf(" %g-%g", secs(a.StartedAt-base), secs(a.StartedAt+a.DurationNS-base))
			}
			if got != " "+c.want {
				t.Errorf("%s: attempts%s, want %s", c.name, got, c.want)
				continue
			}
			if o.Attempts == nil || int(*o.Attempts) != len(res.Attempts) || o.LeafAttempts == nil || *o.LeafAttempts != *o.Attempts {
				t.Errorf("%s: %d attempts with %d rows", c.name, *o.Attempts, len(res.Attempts))
			}
			near(t, c.name+": failed", &o.FailedAttemptNS, c.failed)
			near(t, c.name+": backoff", &o.BackoffNS, c.backoff)
			near(t, c.name+": hidden", o.HiddenTotalNS, c.failed+c.backoff)
		}
	}
}
