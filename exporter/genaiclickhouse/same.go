package genaiclickhouse

import (
	"fmt"

	"driftline/exporter/genaiclickhouse/internal/block"
	"driftline/internal/rows"
)

// What a column holds in storage when its value follows from other columns of the row, which
// saves up to eight bytes each. No true value is like these: an instant of 1970 is set aside,
// and nothing lasts less than no time. The views put the values back.
const (
	// sameInstant stands for the instant of the end minus the length.
	sameInstant = 0
	// sameLength stands for the value that a rule gives, and otherLength for that of the
	// second rule of a column.
	sameLength  = -1
	otherLength = -2
	// farAhead is more than what anybody has left of a deadline, twelve years, and less than
	// any instant since 1983, in nanoseconds. What a column holds above it is an instant.
	farAhead = 400_000_000_000_000_000
)

// rule says what a column's value often is.
type rule struct {
	column string
	code   int64
	// from are the columns that the value follows from, at most three; is gets their values.
	from []string
	is   func(v [3]int64) int64
}

func equals(column, other string) rule {
	return rule{column, sameLength, []string{other}, func(v [3]int64) int64 { return v[0] }}
}

func difference(column string, code int64, minuend, subtrahend string) rule {
	return rule{column, code, []string{minuend, subtrahend}, func(v [3]int64) int64 { return v[0] - v[1] }}
}

// perToken is the mean time between the tokens after the first.
var perToken = rule{"time_per_output_token_ns", sameLength, []string{"inference_time_ns", "ttft_ns", "output_tokens"}, func(v [3]int64) int64 {
	if v[2] == 1 {
		return 0 // as intDivOrZero has it
	}
	return (v[0] - v[1]) / (v[2] - 1)
}}

// sameAs says which columns of a table often follow from others.
type sameAs struct {
	// started follows from ended and length; the table has none if it is empty.
	started, ended, length string
	// rules are those of lengths. A column whose value others follow from comes after them.
	rules []rule
	// remaining is what was left of a deadline at the start: as the deadline itself it is the
	// same for all of a request. The table has none if it is empty.
	remaining string
}

var sames = map[rows.Table]sameAs{
	rows.TableRequests: {
		started: "started_at", ended: "ended_at", length: "user_time_ns",
		rules: []rule{equals("agent_time_ns", "user_time_ns"), difference("agent_time_ns", otherLength, "user_time_ns", "hidden_total_ns")},
	},
	rows.TableOperations: {
		started: "started_at", ended: "ended_at", length: "user_time_ns",
		rules: []rule{
			equals("path_ns", "user_time_ns"),
			equals("agent_time_ns", "user_time_ns"), difference("agent_time_ns", otherLength, "user_time_ns", "hidden_total_ns"),
			equals("tool_ns", "user_time_ns"), difference("tool_ns", otherLength, "user_time_ns", "hidden_total_ns"),
			equals("inference_segment_ns", "inference_time_ns"),
			equals("first_chunk_ns", "ttft_ns"), equals("ttft_segment_ns", "ttft_ns"),
			difference("generation_ns", sameLength, "inference_time_ns", "ttft_ns"), perToken,
			equals("inference_time_ns", "user_time_ns"),
		},
	},
	rows.TableAttempts: {started: "started_at", ended: "ended_at", length: "duration_ns", remaining: "remaining_ns"},
}

// follows is sameAs with the columns of one block.
type follows struct {
	started, ended, length, remaining *block.Number[int64]
	rules                             []boundRule
}

type boundRule struct {
	rule
	to   *block.Number[int64]
	from []*block.Number[int64]
}

// value is what the rule gives for the current row; ok is false if a column it follows from
// is NULL or was not set.
func (r *boundRule) value(row int) (v int64, ok bool) {
	var from [3]int64
	for i, c := range r.from {
		if !c.IsSet(row) {
			return 0, false
		}
		from[i] = c.At(row)
	}
	return r.is(from), true
}

func (t *tableRows) newFollows() follows {
	s, ok := sames[t.table]
	if !ok {
		return follows{}
	}
	column := func(name string) *block.Number[int64] {
		for i := range t.fields {
			if t.fields[i].Column == name {
				return t.columns[i].(*block.Number[int64])
			}
		}
		panic("genaiclickhouse: table " + string(t.table) + " has no column " + name)
	}
	var f follows
	f.started, f.ended, f.length = column(s.started), column(s.ended), column(s.length)
	if s.remaining != "" {
		f.remaining = column(s.remaining)
	}
	for _, r := range s.rules {
		bound := boundRule{rule: r, to: column(r.column)}
		for _, name := range r.from {
			bound.from = append(bound.from, column(name))
		}
		f.rules = append(f.rules, bound)
	}
	return f
}

// problem says why v cannot be stored in a column: it means something else there.
func (f *follows) problem(c *block.Number[int64], v int64) error {
	for _, r := range f.rules {
		if r.to == c && v == r.code {
			return fmt.Errorf("%s is %d, which no length of time is", c.Name(), v)
		}
	}
	return nil
}

// shorten replaces what follows from other columns in the given row, which is the current one.
func (f *follows) shorten(row int) {
	if f.started == nil {
		return
	}
	length := int64(0)
	if f.length.IsSet(row) {
		length = f.length.At(row)
	}
	if f.remaining != nil && f.remaining.IsSet(row) && f.started.IsSet(row) {
		// Who has more than that left has no deadline worth the name.
		left := min(f.remaining.At(row), farAhead)
		if at := f.started.At(row) + left; at > farAhead {
			left = at
		}
		f.remaining.Set(row, left)
	}
	if f.started.IsSet(row) && f.started.At(row) == f.ended.At(row)-length {
		f.started.Set(row, sameInstant)
	}
	for i := range f.rules {
		r := &f.rules[i]
		if !r.to.IsSet(row) || r.to.At(row) < 0 {
			continue // a rule before this one applied
		}
		if v, ok := r.value(row); ok && v == r.to.At(row) {
			r.to.Set(row, r.code)
		}
	}
}
