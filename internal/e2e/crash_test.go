package e2e

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/internal/sim"
)

// ledger is what a sender was told that the receiver has taken.
type ledger struct {
	// spans are trace and span id, with the span's name.
	spans map[string]string
	// roots are traces whose root was taken, with the root's end.
	roots map[string]time.Time
}

func newLedger() *ledger { return &ledger{map[string]string{}, map[string]time.Time{}} }

func (l *ledger) add(td ptrace.Traces) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				l.spans[span.TraceID().String()+span.SpanID().String()] = span.Name()
				if span.ParentSpanID().IsEmpty() {
					l.roots[span.TraceID().String()] = span.EndTimestamp().AsTime()
				}
			}
		}
	}
}

// send sends each export until the receiver has taken it, as an SDK does.
func (l *ledger) send(t *testing.T, otlp string, exports []sim.Emission) {
	t.Helper()
	for _, e := range exports {
		eventually(t, 60*time.Second, func() error { return sendSpans(t.Context(), otlp, e.Traces) })
		l.add(e.Traces)
	}
}

// missing returns the spans that have no row.
func (l *ledger) missing(t *testing.T, conn driver.Conn) map[string]string {
	t.Helper()
	out := maps.Clone(l.spans)
	for _, id := range list[string](t, conn, "SELECT concat(trace_id, span_id) FROM spans") {
		delete(out, id)
	}
	return out
}

// requests says which finished request is not there exactly once, or which row of any kind is there more than once.
func (l *ledger) requests(t *testing.T, conn driver.Conn) error {
	t.Helper()
	requests := map[string]int{}
	for _, id := range list[string](t, conn, "SELECT trace_id FROM requests") {
		requests[id]++
	}
	for id := range l.roots {
		if requests[id] != 1 {
			return fmt.Errorf("trace %s has %d requests, want 1 (%d of %d traces have one)", id, requests[id], len(requests), len(l.roots))
		}
	}
	return once(t, conn)
}

// once says which table shows a key more than once.
func once(t *testing.T, conn driver.Conn) error {
	t.Helper()
	for table, key := range map[string]string{
		"requests": "trace_id, request_id", "operations": "trace_id, operation_id", "attempts": "trace_id, attempt_id",
		"segments": "trace_id, request_id, segment_index", "spans": "trace_id, span_id",
	} {
		if n := scalar[uint64](t, conn, "SELECT toUInt64(count() - uniqExact("+key+")) FROM "+table); n != 0 {
			return fmt.Errorf("%d keys are in %s more than once", n, table)
		}
	}
	return nil
}

// gone says whether a process has ended, be it that nobody has collected it yet.
func gone(pid int) error {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, state, _ := strings.Cut(string(raw), ") "); strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X") {
		return nil
	}
	return fmt.Errorf("process %d still runs", pid)
}

// parent returns the parent of a process.
func parent(t *testing.T, pid int) int {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(raw), ") ")
	var state string
	var ppid int
	_, err = fmt.Sscan(rest, &state, &ppid)
	require.NoError(t, err)
	return ppid
}

// One folder goes through the death of the engine, of detectd, and an orderly stop, under traffic.
func TestWhatSurvives(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	outer := t // an instance lives on into the next part
	in := startStandalone(outer, data)
	exports := simulated(t, 6*time.Minute, 120)
	quarter := len(exports) / 4
	taken := newLedger()

	t.Run("kill -9 of the engine", func(t *testing.T) {
		conn := connect(t, in.clickhouse)
		taken.send(t, in.otlp, exports[:quarter])
		eventually(t, 60*time.Second, func() error {
			if scalar[uint64](t, conn, "SELECT count() FROM spans") == 0 {
				return errors.New("nothing is stored")
			}
			return nil
		})
		for round := range 2 {
			pid := in.enginePID()
			require.Equal(t, in.cmd.Process.Pid, parent(t, pid), "the engine is detectd's child")
			at := quarter + round*quarter/2
			if round == 0 {
				// A stopped engine takes an insert and never answers: it dies with that insert under way.
				require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
				taken.send(t, in.otlp, exports[at:at+quarter/4])
				at += quarter / 4
				eventually(t, 60*time.Second, func() error {
					s := scrape(t, in.ui+"/metrics")
					if s.exporter("spans_received") == s.exporter("spans_stored")+s.exporter("spans_skipped")+s.exporter("spans_refused") {
						return errors.New("no insert is under way")
					}
					return nil
				})
			}
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			// The intake goes on meanwhile.
			taken.send(t, in.otlp, exports[at:quarter+(round+1)*quarter/2])
			eventually(t, startTimeout, func() error {
				if now := in.enginePID(); now == pid || now == 0 {
					return errors.New("no other engine has started")
				}
				s := scrape(t, in.ui+"/metrics")
				if s["driftline_engine_up_ratio"] != 1 || s["driftline_engine_restarts"] != float64(round+1) {
					return fmt.Errorf("engine up %v, restarts %v", s["driftline_engine_up_ratio"], s["driftline_engine_restarts"])
				}
				return nil
			})
		}
		// A retried call's HTTP span that a checkpoint sent before any GenAI span of its trace came has no thin row:
		// counted, and the attempt's own row is there.
		var unknown map[string]string
		var s sums
		eventually(t, 60*time.Second, func() error {
			unknown = taken.missing(t, conn)
			s = scrape(t, in.ui+"/metrics")
			skipped := s[`otelcol_exporter_genaiclickhouse_spans_skipped{reason="not_genai"}`]
			if float64(len(unknown)) != skipped {
				return fmt.Errorf("of %d spans %d have no row, and %v were skipped as not GenAI", len(taken.spans), len(unknown), skipped)
			}
			return taken.requests(t, conn)
		})
		for id, name := range unknown {
			require.Equal(t, "POST", name)
			delete(taken.spans, id)
		}
		require.Less(t, len(unknown), len(taken.spans)/100)
		require.Zero(t, s.processor("spans_dropped"))
		require.NotZero(t, s.exporter("spans_refused"), "a batch had to be tried again")
		t.Logf("%d spans of %d finished requests are kept; %v spans were tried again", len(taken.spans), len(taken.roots), s.exporter("spans_refused"))
	})

	lost := newLedger()
	t.Run("kill -9 of detectd", func(t *testing.T) {
		pid := in.enginePID()
		lost.send(t, in.otlp, exports[2*quarter:3*quarter])
		in.signal(syscall.SIGKILL)
		code, ended := in.wait(10 * time.Second)
		require.True(t, ended)
		require.Equal(t, -1, code)
		eventually(t, 10*time.Second, func() error { return gone(pid) })

		in = startStandalone(outer, data)
		conn := connect(t, in.clickhouse)
		require.Empty(t, taken.missing(t, conn), "what the engine had acknowledged")
		require.NoError(t, taken.requests(t, conn))
		there := 0
		for _, id := range list[string](t, conn, "SELECT concat(trace_id, span_id) FROM spans") {
			if name, sent := lost.spans[id]; sent {
				there++
				taken.spans[id] = name
			}
		}
		// docs/operations.md: what the processor held since its last checkpoint and what waited in memory.
		t.Logf("of %d spans taken in the last moments %d were stored", len(lost.spans), there)
	})

	t.Run("restart in order", func(t *testing.T) {
		// Traces that began before the kill are known in part only.
		before := map[string]bool{}
		for _, e := range exports[:3*quarter] {
			for _, rs := range e.Traces.ResourceSpans().All() {
				for _, ss := range rs.ScopeSpans().All() {
					for _, span := range ss.Spans().All() {
						before[span.TraceID().String()] = true
					}
				}
			}
		}
		last := newLedger()
		last.send(t, in.otlp, exports[3*quarter:])
		in.stop(t)
		in = startStandalone(outer, data)
		conn := connect(t, in.clickhouse)
		require.Empty(t, taken.missing(t, conn))
		require.NoError(t, taken.requests(t, conn))
		for id, name := range last.spans {
			if before[id[:32]] || name == "POST" {
				delete(last.spans, id)
			}
		}
		for trace := range last.roots {
			if before[trace] {
				delete(last.roots, trace)
			}
		}
		require.Greater(t, len(last.roots), 50)
		require.Empty(t, last.missing(t, conn), "a stop drains the processor and the queue")
		require.NoError(t, last.requests(t, conn))
		t.Logf("%d spans of %d finished requests are kept", len(last.spans), len(last.roots))
		in.stop(t)
		require.NoError(t, gone(in.enginePID()))
	})
}

// /readyz follows the engine down and up again.
func TestReadinessTellsOfTheEngine(t *testing.T) {
	t.Parallel()
	in := startStandalone(t, t.TempDir())
	eventually(t, startTimeout, func() error {
		if code, body := get(t, in.ui+"/readyz"); code != http.StatusOK {
			return fmt.Errorf("/readyz: %d %s", code, body)
		}
		return nil
	})
	code, _ := get(t, in.ui+"/healthz")
	require.Equal(t, http.StatusOK, code)
	pid := in.enginePID()
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	eventually(t, 10*time.Second, func() error {
		if code, body := get(t, in.ui+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "engine") {
			return fmt.Errorf("/readyz: %d %s", code, body)
		}
		return nil
	})
	eventually(t, startTimeout, func() error {
		if code, body := get(t, in.ui+"/readyz"); code != http.StatusOK {
			return fmt.Errorf("/readyz: %d %s", code, body)
		}
		return nil
	})
	in.stop(t)
}
