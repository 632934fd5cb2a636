// Command mkfixture makes content-free fixtures of a recording: of the raw OTLP lines that otlpsink wrote, the request
// log of the test server, and the lines that the traffic programs printed. Content is removed by allow-list.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/internal/fakellm"
	"driftline/internal/recorded"
)

func main() {
	var spans, requests, runs, out string
	var silent []string
	cmd := &cobra.Command{
		Use:          "mkfixture",
		Short:        "Make content-free fixtures of a recording",
		Example:      "  mkfixture --spans raw.jsonl --requests requests.jsonl --runs runs.jsonl --out testdata/recorded",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd, spans, requests, runs, out, silent)
		},
	}
	cmd.Flags().StringVar(&spans, "spans", "", "OTLP JSON lines")
	cmd.Flags().StringVar(&requests, "requests", "", "request log of the test server")
	cmd.Flags().StringVar(&runs, "runs", "", "output of the traffic programs")
	cmd.Flags().StringVar(&out, "out", "", "folder to write to")
	cmd.Flags().StringSliceVar(&silent, "silent", nil, "fixtures of which no span is expected")
	for _, f := range []string{"spans", "requests", "runs", "out"} {
		_ = cmd.MarkFlagRequired(f) // fails only for a flag that does not exist
	}
	if err := cmd.Execute(); err != nil {
		os.Exit(1)
	}
}

// scenario is one line of a traffic program.
type scenario struct {
	SDK      string `json:"sdk"`
	Scenario string `json:"scenario"`
	TraceID  string `json:"trace_id"`
	OK       bool   `json:"ok"`
}

func run(cmd *cobra.Command, spansFile, requestsFile, runsFile, out string, silent []string) error {
	requests, err := os.ReadFile(requestsFile)
	if err != nil {
		return err
	}
	log, err := parseLog(requests)
	if err != nil {
		return err
	}
	byTrace, err := readSpans(spansFile)
	if err != nil {
		return err
	}
	lines, err := os.ReadFile(runsFile)
	if err != nil {
		return err
	}
	var errs []error
	for line := range bytes.Lines(lines) {
		var s scenario
		if err := json.Unmarshal(line, &s); err != nil {
			return fmt.Errorf("%s: %w", runsFile, err)
		}
		name := s.SDK + "-" + s.Scenario
		traces, ok := byTrace[s.TraceID]
		switch {
		case !s.OK:
			errs = append(errs, fmt.Errorf("%s failed; no fixture is made of it", name))
			continue
		case !ok && slices.Contains(silent, name):
			traces = ptrace.NewTraces()
		case ok && slices.Contains(silent, name):
			errs = append(errs, fmt.Errorf("%s: it sends spans now, take it off the list of the silent", name))
		case !ok:
			errs = append(errs, fmt.Errorf("%s: no span of trace %s was received", name, s.TraceID))
			continue
		}
		removed, err := write(out, name, s.TraceID, traces, log)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %d spans; removed: %s\n", name, traces.SpanCount(), strings.Join(removed, ", "))
	}
	return errors.Join(errs...)
}

// write makes the two files of one fixture and returns the keys it removed.
func write(out, name, traceID string, traces ptrace.Traces, log []fakellm.LogEntry) ([]string, error) {
	removed := recorded.Sanitize(traces)
	data, err := (&ptrace.JSONMarshaler{}).MarshalTraces(traces)
	if err != nil {
		return nil, err
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, data, "", " "); err != nil {
		return nil, err
	}
	pretty.WriteByte('\n')
	var mine []fakellm.LogEntry
	for _, e := range log {
		if e.TraceID == traceID {
			mine = append(mine, e)
		}
	}
	if len(mine) == 0 {
		return nil, errors.New("the test server has no attempt with this trace id: is the HTTP instrumentation propagating traceparent?")
	}
	slices.SortFunc(mine, func(a, b fakellm.LogEntry) int { return int(a.Seq - b.Seq) })
	rows := make([]string, len(mine))
	for i, e := range mine {
		row, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		rows[i] = string(row)
	}
	requests := "[\n" + strings.Join(rows, ",\n") + "\n]\n" // an attempt a line, for readable diffs
	if err := os.WriteFile(filepath.Join(out, name+".json"), pretty.Bytes(), 0o644); err != nil {
		return nil, err
	}
	return removed, os.WriteFile(filepath.Join(out, name+recorded.RequestsSuffix), []byte(requests), 0o644)
}

// readSpans reads OTLP JSON lines and sorts them by trace, keeping resources and scopes.
func readSpans(file string) (map[string]ptrace.Traces, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	byTrace := map[string]ptrace.Traces{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for n := 1; lines.Scan(); n++ {
		all, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%s line %d: %w", file, n, err)
		}
		split(all, byTrace)
	}
	return byTrace, lines.Err()
}

// split copies the spans of one export request to their traces.
func split(all ptrace.Traces, byTrace map[string]ptrace.Traces) {
	for i := range all.ResourceSpans().Len() {
		rs := all.ResourceSpans().At(i)
		for j := range rs.ScopeSpans().Len() {
			ss := rs.ScopeSpans().At(j)
			scopes := map[string]ptrace.ScopeSpans{} // this scope's copies, by trace
			for k := range ss.Spans().Len() {
				span := ss.Spans().At(k)
				id := span.TraceID().String()
				scope, ok := scopes[id]
				if !ok {
					scope = place(byTrace, id, rs, ss)
					scopes[id] = scope
				}
				span.CopyTo(scope.Spans().AppendEmpty())
			}
		}
	}
}

func place(byTrace map[string]ptrace.Traces, id string, rs ptrace.ResourceSpans, ss ptrace.ScopeSpans) ptrace.ScopeSpans {
	traces, ok := byTrace[id]
	if !ok {
		traces = ptrace.NewTraces()
		byTrace[id] = traces
	}
	var to ptrace.ResourceSpans
	if n := traces.ResourceSpans().Len(); n > 0 { // one process, hence one resource, makes a recorded trace
		to = traces.ResourceSpans().At(n - 1)
	} else {
		to = traces.ResourceSpans().AppendEmpty()
		rs.Resource().CopyTo(to.Resource())
		to.SetSchemaUrl(rs.SchemaUrl())
	}
	scope := to.ScopeSpans().AppendEmpty()
	ss.Scope().CopyTo(scope.Scope())
	scope.SetSchemaUrl(ss.SchemaUrl())
	return scope
}

// parseLog reads the JSON lines of a test server's log. Empty lines are skipped; the error names the bad line.
func parseLog(data []byte) ([]fakellm.LogEntry, error) {
	var entries []fakellm.LogEntry
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var e fakellm.LogEntry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("request log line %d: %w", n, err)
		}
		entries = append(entries, e)
	}
	return entries, lines.Err()
}
