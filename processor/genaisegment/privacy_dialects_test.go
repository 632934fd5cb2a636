package genaisegment

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.yaml.in/yaml/v3"

	"driftline/internal/genai/dialects"
	"driftline/internal/rows"
)

// written is a trace of testdata/dialects, as much of it as is needed to send it.
type written struct {
	Spans []struct {
		ID, Parent, Name, Scope, Kind, Status, Service string
		From, To                                       float64
		Attributes                                     map[string]any
		Events                                         []struct {
			Name       string
			At         float64
			Attributes map[string]any
		}
	} `yaml:"spans"`
}

func instant(s float64) pcommon.Timestamp {
	return pcommon.NewTimestampFromTime(began.Add(time.Duration(s * float64(time.Second))))
}

func spanID(text string) (id pcommon.SpanID) {
	copy(id[:], text)
	return id
}

// traces is the trace in OTLP, with id as its trace id.
func (w *written) traces(t *testing.T, id byte) ptrace.Traces {
	t.Helper()
	td := ptrace.NewTraces()
	fill := func(to pcommon.Map, from map[string]any) {
		for k, v := range from {
			require.NoError(t, to.PutEmpty(k).FromRaw(v))
		}
	}
	for _, s := range w.Spans {
		rs := td.ResourceSpans().AppendEmpty()
		rs.Resource().Attributes().PutStr("service.name", "app"+s.Service)
		ss := rs.ScopeSpans().AppendEmpty()
		ss.Scope().SetName(s.Scope)
		span := ss.Spans().AppendEmpty()
		span.SetTraceID(pcommon.TraceID{id, 15: 1})
		span.SetSpanID(spanID(s.ID))
		span.SetParentSpanID(spanID(s.Parent))
		span.SetName(s.Name)
		span.SetKind(map[string]ptrace.SpanKind{"": ptrace.SpanKindInternal, "internal": ptrace.SpanKindInternal, "server": ptrace.SpanKindServer, "client": ptrace.SpanKindClient}[s.Kind])
		span.Status().SetCode(map[string]ptrace.StatusCode{"ok": ptrace.StatusCodeOk, "error": ptrace.StatusCodeError}[s.Status])
		span.SetStartTimestamp(instant(s.From))
		span.SetEndTimestamp(instant(s.To))
		fill(span.Attributes(), s.Attributes)
		for _, e := range s.Events {
			event := span.Events().AppendEmpty()
			event.SetName(e.Name)
			event.SetTimestamp(instant(e.At))
			fill(event.Attributes(), e.Attributes)
		}
	}
	return td
}

// TestPrivacy_EveryDialectsOwnSpans puts a canary into every content attribute and event of
// every dialect on the spans that each dialect's instrumentations write, so that each is read
// by its own rules. What the spans say beside it must be understood as before.
func TestPrivacy_EveryDialectsOwnSpans(t *testing.T) {
	paths, err := filepath.Glob("../../testdata/dialects/*/*.yaml")
	require.NoError(t, err)
	h := &hides{}
	h.keys, h.events = contentKeys(t)
	read := map[string]bool{}
	checked := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		var w written
		require.NoError(t, yaml.Unmarshal(text, &w), path)
		operations := func(hide bool) int {
			r := newRig(t, func(c *Config) { c.TraceTimeout = time.Hour })
			td := w.traces(t, 1)
			if hide {
				for _, span := range spansIn(td) {
					has := map[string]bool{}
					for key := range span.Attributes().All() {
						has[key] = true
					}
					with := &hides{events: h.events, count: h.count}
					for _, key := range h.keys {
						if !has[key] { // a few numbers of dialects stand under keys that look like content
							with.keys = append(with.keys, key)
						}
					}
					with.into(span)
					h.count = with.count
				}
			}
			r.consume(t, td)
			r.clock.Advance(2 * time.Hour)
			require.NoError(t, r.Shutdown(t.Context()))
			for _, span := range r.spans() {
				for key, v := range span.Attributes().All() {
					if strings.HasPrefix(key, rows.AttributePrefix) {
						require.NotContains(t, v.AsString(), canary, "%s: mark %s", path, key)
					}
				}
				for _, e := range span.Events().All() {
					if strings.HasPrefix(e.Name(), rows.AttributePrefix) {
						row, err := json.Marshal(e.Attributes().AsRaw())
						require.NoError(t, err)
						require.NotContains(t, string(row), canary, "%s: row %s", path, e.Name())
						checked++
					}
				}
			}
			found := pick[*rows.Operation](rowsOf(t, r.spans()))
			for _, o := range found {
				read[o.Dialect] = true
			}
			return len(found)
		}
		plain := operations(false)
		require.NotZero(t, plain, path)
		require.Equal(t, plain, operations(true), "%s: content changes what is understood", path)
	}
	docs, err := dialects.BuiltIn()
	require.NoError(t, err)
	for _, d := range docs {
		if d.Dialect != "common" && !d.Unnamed {
			require.True(t, read[d.Dialect], "no operation was read as dialect %s", d.Dialect)
		}
	}
	t.Logf("%d traces, %d texts, %d rows without one", len(paths), h.count, checked)
}
