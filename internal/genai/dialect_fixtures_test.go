package genai

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"driftline/internal/genai/dialects"
	"driftline/internal/rows"
)

// fixture is one trace as an instrumentation writes it, with what it must become. What
// is left out of an operation must be unknown or none.
type fixture struct {
	About string `yaml:"about"`
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
	Want struct {
		Request struct {
			Kind, Agent  string
			Steps        uint32
			ToolCalls    uint32 `yaml:"tool_calls"`
			InputTokens  int64  `yaml:"input_tokens"`
			OutputTokens int64  `yaml:"output_tokens"`
			Failed       bool
		} `yaml:"request"`
		Operations []wantOperation `yaml:"operations"`
	} `yaml:"want"`
}

type wantOperation struct {
	ID, Kind, Target, Dialect, Provider, Agent string
	ResponseModel                              string  `yaml:"response_model"`
	Stream                                     string  // checked only where given
	TTFT                                       float64 `yaml:"ttft_s"`
	Queue                                      float64 `yaml:"queue_s"`
	Input, Output, Cached, Reasoning           int64
	Attempts                                   uint32
	Source                                     string
	Backoff                                    float64 `yaml:"backoff_s"`
	FailedS                                    float64 `yaml:"failed_s"`
	Duration                                   float64 `yaml:"duration_s"` // checked only where given
	Class                                      string
	ErrorType                                  string   `yaml:"error_type"`
	Classes                                    []string // of the attempts, in order
}

var spanKinds = map[string]SpanKind{"": KindInternal, "internal": KindInternal, "server": KindServer, "client": KindClient, "unspecified": KindUnspecified}

func attrsFrom(t *testing.T, m map[string]any) []Attr {
	t.Helper()
	var out []Attr
	for k, v := range m {
		if list, ok := v.([]any); ok {
			text := make([]string, len(list))
			for i := range list {
				text[i] = list[i].(string)
			}
			v = text
		}
		out = append(out, kv(k, v))
	}
	slices.SortFunc(out, func(x, y Attr) int { return strings.Compare(x.Key, y.Key) })
	return out
}

// spans builds the trace as ingestion would: attributes that nothing reads are gone.
func (f *fixture) spans(t *testing.T, opt *Options) []Span {
	t.Helper()
	kept := func(m map[string]any) []Attr {
		return slices.DeleteFunc(attrsFrom(t, m), func(a Attr) bool { return !Wanted(a.Key, opt) })
	}
	var out []Span
	for _, s := range f.Spans {
		kind, ok := spanKinds[s.Kind]
		if !ok {
			t.Fatalf("span %s: unknown kind %q", s.ID, s.Kind)
		}
		span := sp(s.ID, s.Parent, s.Name, s.From, s.To, kind, kept(s.Attributes))
		span.Scope = s.Scope
		span.Status = map[string]Status{"": StatusUnset, "ok": StatusOK, "error": StatusError}[s.Status]
		if s.Service != "" {
			span.Resource = &Resource{ServiceName: s.Service, HostID: s.Service}
		}
		for _, e := range s.Events {
			span.Events = append(span.Events, ev(e.Name, e.At, kept(e.Attributes)...))
		}
		out = append(out, span)
	}
	return out
}

func readFixture(t *testing.T, path string) *fixture {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f := new(fixture)
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(f); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return f
}

// TestDialectFixtures holds each written trace of each dialect to what it must become.
func TestDialectFixtures(t *testing.T) {
	paths, err := filepath.Glob("../../testdata/dialects/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, p := range paths {
		dir := filepath.Base(filepath.Dir(p))
		have[dir] = true
		t.Run(dir+"/"+strings.TrimSuffix(filepath.Base(p), ".yaml"), func(t *testing.T) {
			f := readFixture(t, p)
			if f.About == "" || len(f.Spans) == 0 {
				t.Fatal("says nothing or has no spans")
			}
			f.check(t, analyze(t, f.spans(t, nil)...))
		})
	}
	docs, err := dialects.BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range docs {
		if d.Dialect != "common" && !have[d.Dialect] {
			t.Errorf("dialect %s has no fixtures in testdata/dialects/%s", d.Dialect, d.Dialect)
		}
	}
}

func (f *fixture) check(t *testing.T, res Result) {
	t.Helper()
	r, w := theRequest(t, res), f.Want.Request
	if r.Kind != w.Kind || r.Agent != w.Agent || r.Steps != w.Steps || r.ToolCalls != w.ToolCalls || (r.Outcome == rows.OutcomeError) != w.Failed {
		t.Errorf("request of kind %s, agent %q, %d steps, %d tool calls, outcome %s; want %+v", r.Kind, r.Agent, r.Steps, r.ToolCalls, r.Outcome, w)
	}
	count(t, "request: input tokens", r.InputTokens, w.InputTokens)
	count(t, "request: output tokens", r.OutputTokens, w.OutputTokens)
	var ids []string
	for _, o := range res.Operations {
		ids = append(ids, o.OperationID)
	}
	var wanted []string
	for _, o := range f.Want.Operations {
		wanted = append(wanted, o.ID)
	}
	slices.Sort(ids)
	slices.Sort(wanted)
	if !slices.Equal(ids, wanted) {
		t.Fatalf("operations %v, want %v", ids, wanted)
	}
	for i := range f.Want.Operations {
		f.Want.Operations[i].check(t, res)
	}
}

func (w *wantOperation) check(t *testing.T, res Result) {
	t.Helper()
	o := operation(t, res, w.ID)
	if o.Kind != w.Kind || o.Target != w.Target || o.Dialect != w.Dialect || o.Provider != w.Provider || o.ResponseModel != w.ResponseModel {
		t.Errorf("%s: kind %s, target %q, dialect %q, provider %q, response model %q; want %+v", w.ID, o.Kind, o.Target, o.Dialect, o.Provider, o.ResponseModel, *w)
	}
	if w.Agent != "" && o.Agent != w.Agent {
		t.Errorf("%s: agent %q, want %q", w.ID, o.Agent, w.Agent)
	}
	if w.Stream != "" && o.Stream != w.Stream {
		t.Errorf("%s: stream is %s, want %s", w.ID, o.Stream, w.Stream)
	}
	if w.TTFT > 0 {
		near(t, w.ID+": ttft", o.TTFTNS, w.TTFT)
	} else if o.TTFTNS != nil {
		t.Errorf("%s: ttft is %v s, want none", w.ID, secs(*o.TTFTNS))
	}
	count(t, w.ID+": input", o.InputTokens, w.Input)
	count(t, w.ID+": output", o.OutputTokens, w.Output)
	count(t, w.ID+": cached", o.CachedTokens, w.Cached)
	count(t, w.ID+": reasoning", o.ReasoningTokens, w.Reasoning)
	if (o.Attempts == nil) != (w.Attempts == 0) || o.Attempts != nil && *o.Attempts != w.Attempts {
		t.Errorf("%s: attempts are %v, want %d", w.ID, num(o.Attempts), w.Attempts)
	}
	if w.Source != "" && o.AttemptSource != w.Source {
		t.Errorf("%s: attempts by %s, want %s", w.ID, o.AttemptSource, w.Source)
	}
	near(t, w.ID+": queue", &o.QueueNS, w.Queue)
	near(t, w.ID+": backoff", &o.BackoffNS, w.Backoff)
	near(t, w.ID+": failed attempts", &o.FailedAttemptNS, w.FailedS)
	if w.Duration > 0 {
		near(t, w.ID+": user time", &o.UserTimeNS, w.Duration)
	}
	if o.ErrorClass != w.Class || o.ErrorType != w.ErrorType {
		t.Errorf("%s: error class %q, type %q; want %q, %q", w.ID, o.ErrorClass, o.ErrorType, w.Class, w.ErrorType)
	}
	if w.Classes != nil {
		var got []string
		for _, a := range res.Attempts {
			if a.OperationID == w.ID {
				got = append(got, a.ErrorClass)
			}
		}
		if !slices.Equal(got, w.Classes) {
			t.Errorf("%s: attempts failed as %q, want %q", w.ID, got, w.Classes)
		}
	}
}

func num(n *uint32) any {
	if n == nil {
		return "unknown"
	}
	return *n
}

// count checks a number of tokens; 0 stands for unknown.
func count(t *testing.T, what string, got *int64, want int64) {
	t.Helper()
	if (got == nil) != (want == 0) || got != nil && *got != want {
		if got == nil {
			t.Errorf("%s tokens are unknown, want %d", what, want)
		} else {
			t.Errorf("%s tokens are %d, want %d", what, *got, want)
		}
	}
}
