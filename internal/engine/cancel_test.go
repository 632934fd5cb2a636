package engine_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"driftline/internal/engine/enginetest"
)

// eventually asks until it holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

func running(t *testing.T, e *enginetest.Engine, id string) bool {
	t.Helper()
	return post(t, e, url.Values{"param_id": {"query_id=" + id + " "}}, "SELECT count() FROM system.processes WHERE position(Settings['log_comment'], {id:String}) > 0") != "0\n"
}

const endless = "SELECT count() FROM numbers(1000000000000) WHERE NOT ignore(sipHash64(number))"

// A client that closes its connection ends its statement in the engine, whether it counts, sends rows or takes them.
func TestDisconnectEndsTheStatementInTheEngine(t *testing.T) {
	e := enginetest.Start(t)
	post(t, e, nil, "CREATE TABLE t (a String) ENGINE = MergeTree ORDER BY a")
	addr := strings.TrimPrefix(e.URL(t), "http://")
	for name, request := range map[string]string{
		"counting":  "POST /?query_id=counting HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + strconv.Itoa(len(endless)) + "\r\n\r\n" + endless,
		"streaming": "GET /?query_id=streaming&query=SELECT+number,number+FROM+numbers(1000000000000) HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"joined":    "GET /?query_id=joined&query=SELECT+number,number+FROM+numbers(1000000000000)+FORMAT+JSON HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"inserting": "POST /?query_id=inserting&query=INSERT+INTO+t+FORMAT+TSV HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n" + strings.Repeat("x\n", 700_000),
	} {
		peer, err := net.Dial("tcp", addr)
		must(t, err)
		_, err = peer.Write([]byte(request))
		must(t, err)
		eventually(t, name+" begins", func() bool { return running(t, e, name) })
		if name == "streaming" || name == "joined" {
			_, err := io.CopyN(io.Discard, bufio.NewReader(peer), 5<<20)
			must(t, err)
		}
		must(t, peer.Close())
		eventually(t, name+" ends", func() bool { return !running(t, e, name) })
	}
	if got := post(t, e, nil, "SELECT count() FROM t"); got != "0\n" {
		t.Errorf("an insert that was cut left %q rows", got)
	}
	// The engine has nothing left to do.
	eventually(t, "the engine comes to rest", func() bool {
		before := processTime(t, e.PID())
		time.Sleep(300 * time.Millisecond)
		return processTime(t, e.PID())-before < 60*time.Millisecond
	})
}

func processTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(t, err)
	fields := strings.Fields(string(text[strings.LastIndex(string(text), ")")+2:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

func TestKillQuery(t *testing.T) {
	e := enginetest.Start(t, "--max-concurrent=1", "--max-queued=1")
	type reply struct {
		status     int
		code, text string
	}
	begin := func(id string) <-chan reply {
		done := make(chan reply, 1)
		go func() {
			req, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, e.URL(t)+"/?query_id="+url.QueryEscape(id), strings.NewReader(endless))
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				done <- reply{text: err.Error()}
				return
			}
			defer resp.Body.Close()
			text, _ := io.ReadAll(resp.Body)
			done <- reply{resp.StatusCode, resp.Header.Get("X-ClickHouse-Exception-Code"), string(text)}
		}()
		// The one slot is taken, so this asks by the statement under test.
		eventually(t, id+" begins", func() bool {
			return post(t, e, url.Values{"param_id": {id}}, "KILL QUERY WHERE query_id = {id:String} TEST") != ""
		})
		return done
	}
	if got := post(t, e, nil, "KILL QUERY WHERE query_id = 'nobody' SYNC"); got != "" {
		t.Errorf("killing nothing: %q", got)
	}
	for _, c := range []struct{ id, sql, want string }{
		{"a", "KILL QUERY WHERE query_id = 'a' SYNC", "finished\ta\tdefault\t" + endless + "\n"},
		{"it's", `kill query where query_id IN ('x', 'it\'s') ASYNC FORMAT TSV`, "waiting\tit\\'s\tdefault\t" + endless + "\n"},
	} {
		done := begin(c.id)
		waiting := begin(c.id + "-2")
		if got := post(t, e, nil, c.sql); got != c.want {
			t.Errorf("%s: %q, want %q", c.sql, got, c.want)
		}
		if r := <-done; r.code != "394" || !strings.Contains(r.text, "KILL QUERY") {
			t.Errorf("the killed statement got %+v", r)
		}
		post(t, e, url.Values{"param_id": {c.id + "-2"}}, "KILL QUERY WHERE query_id == {id:String}")
		if r := <-waiting; r.code != "394" {
			t.Errorf("the next statement, killed too, got %+v", r)
		}
	}
	if got := post(t, e, nil, "SELECT 1"); got != "1\n" {
		t.Errorf("after the kills: %q", got)
	}
}

// Results far larger than the bound pass through: the process never holds more than a few pieces.
func TestLargeResultsInBoundedMemory(t *testing.T) {
	e := enginetest.Start(t)
	if e.External() {
		t.Fatalf("this test is about the embedded engine: unset %s", enginetest.EnvDSN)
	}
	post(t, e, nil, "SELECT count() FROM numbers(1000000)")
	const bound = 800 << 20
	for name, c := range map[string]struct {
		sql, accept string
		want        int64
	}{
		"2 GB of TSV":    {"SELECT number, repeat('x', 999) FROM numbers(2000000)", "", 2_000_000_000},
		"300 MB of JSON": {"SELECT repeat('x', 999) AS s FROM numbers(300000) FORMAT JSON", "", 300_000_000},
	} {
		resp, err := http.Post(e.URL(t)+"/", "", strings.NewReader(c.sql))
		must(t, err)
		n, err := io.Copy(io.Discard, resp.Body)
		must(t, err)
		must(t, resp.Body.Close())
		peak := peakMemory(t, e.PID())
		t.Logf("%s: %d bytes, peak %d MiB resident", name, n, peak>>20)
		if n < c.want || peak > bound {
			t.Errorf("%s: %d bytes with a peak of %d bytes resident; want %d or more with at most %d", name, n, peak, c.want, bound)
		}
	}
}

func peakMemory(t testing.TB, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	must(t, err)
	return kb << 10
}
