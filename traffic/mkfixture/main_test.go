package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// TestRun makes a fixture of a trace that arrived in two export requests, mixed with another trace.
func TestRun(t *testing.T) {
	const wanted = "0a000000000000000000000000000000"
	dir := t.TempDir()
	var raw bytes.Buffer
	for _, span := range []string{"chat", "POST"} {
		traces := ptrace.NewTraces()
		rs := traces.ResourceSpans().AppendEmpty()
		rs.Resource().Attributes().PutStr("service.name", "svc")
		rs.Resource().Attributes().PutStr("host.name", "secret-host")
		ss := rs.ScopeSpans().AppendEmpty()
		ss.Scope().SetName("scope of " + span)
		for _, id := range []byte{0x0a, 0x0b} {
			s := ss.Spans().AppendEmpty()
			s.SetTraceID(pcommon.TraceID{id})
			s.SetName(span)
		}
		line, err := (&ptrace.JSONMarshaler{}).MarshalTraces(traces)
		require.NoError(t, err)
		raw.Write(append(line, '\n'))
	}
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	spans := file("spans", raw.String())
	requests := file("requests", `{"seq":2,"trace_id":"`+wanted+`"}`+"\n"+`{"seq":1,"trace_id":"`+wanted+`"}`+"\n"+`{"seq":3}`+"\n")

	cmd := &cobra.Command{}
	var out bytes.Buffer
	cmd.SetOut(&out)
	runs := file("runs", `{"sdk":"py","scenario":"x","trace_id":"`+wanted+`","ok":true}`+"\n")
	require.NoError(t, run(cmd, spans, requests, runs, dir, nil))
	require.Equal(t, "py-x: 2 spans; removed: host.name\n", out.String())

	data, err := os.ReadFile(filepath.Join(dir, "py-x.json"))
	require.NoError(t, err)
	require.NotContains(t, string(data), "secret-host")
	got, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(data)
	require.NoError(t, err)
	require.Equal(t, 1, got.ResourceSpans().Len())
	require.Equal(t, 2, got.SpanCount())
	require.Equal(t, "scope of POST", got.ResourceSpans().At(0).ScopeSpans().At(1).Scope().Name())
	data, err = os.ReadFile(filepath.Join(dir, "py-x.requests.json"))
	require.NoError(t, err)
	var entries []struct{ Seq int }
	require.NoError(t, json.Unmarshal(data, &entries))
	require.Equal(t, []struct{ Seq int }{{1}, {2}}, entries)

	runs = file("runs", `{"sdk":"py","scenario":"a","ok":false}`+"\n"+`{"sdk":"py","scenario":"b","trace_id":"ff","ok":true}`+"\n")
	err = run(cmd, spans, requests, runs, dir, nil)
	require.ErrorContains(t, err, "py-a failed")
	require.ErrorContains(t, err, "py-b: no span")

	// A call of which no span is expected is a fixture too: the server saw it.
	requests = file("requests", `{"seq":1,"trace_id":"ff"}`+"\n"+`{"seq":2,"trace_id":"`+wanted+`"}`+"\n")
	runs = file("runs", `{"sdk":"py","scenario":"b","trace_id":"ff","ok":true}`+"\n")
	require.NoError(t, run(cmd, spans, requests, runs, dir, []string{"py-b"}))
	data, err = os.ReadFile(filepath.Join(dir, "py-b.json"))
	require.NoError(t, err)
	require.Equal(t, "{}\n", string(data))
	runs = file("runs", `{"sdk":"py","scenario":"x","trace_id":"`+wanted+`","ok":true}`+"\n")
	require.ErrorContains(t, run(cmd, spans, requests, runs, dir, []string{"py-x"}), "off the list of the silent")
}
