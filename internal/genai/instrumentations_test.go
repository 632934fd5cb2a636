package genai_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"driftline/internal/recorded"
	"driftline/internal/rows"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/instrumentations.md")

// instrumentation is one row of docs/instrumentations.md.
type instrumentation struct {
	// name begins the names of its fixtures.
	name string
	// title and packages say what it is; the packages' versions are read from the pinned lists.
	title    string
	packages []string
	// well and badly are the cells of the two tables, written by hand and compared with what the recordings give.
	well, badly string
}

// The columns of the two tables. A cell is one word; "-" is a scenario that there is no recording of, or a matter that
// the SDK has no part in.
var (
	wellColumns  = []string{"attempts", "why one failed", "backoff", "first token", "stream flag", "tokens", "tokens of streams", "tool calls", "embeddings"}
	badlyColumns = []string{"504 to the last", "attempt timed out", "stream stalled", "stream dropped", "call cancelled", "tool failed"}
)

var instrumentations = []instrumentation{
	{"python-otel", "openai, OpenTelemetry", []string{"opentelemetry-instrumentation-openai-v2", "opentelemetry-instrumentation-httpx", "openai"},
		"yes status yes no no yes yes - yes", "timeout timeout timeout success error -"},
	{"python-otel-latest", "the same, newest conventions and captured headers", []string{"opentelemetry-instrumentation-openai-v2"},
		"yes status yes no no yes yes - yes", "timeout timeout timeout success error -"},
	{"python-openllmetry", "openai, OpenLLMetry", []string{"opentelemetry-instrumentation-openai"},
		"yes status yes yes yes yes yes - yes", "timeout timeout success success error -"},
	{"python-openinference", "openai, OpenInference", []string{"openinference-instrumentation-openai"},
		"yes status yes yes streams yes yes - yes", "timeout timeout timeout success cancelled -"},
	{"python-pydantic-ai", "Pydantic AI", []string{"pydantic-ai-slim"},
		"yes status yes yes streams yes yes yes -", "timeout timeout success success success error"},
	{"python-langchain-openinference", "LangChain, OpenInference", []string{"openinference-instrumentation-langchain", "langchain", "langchain-openai"},
		"no no no no no yes yes yes lost", "error no timeout cancelled lost success"},
	{"python-langchain-openllmetry", "LangChain, OpenLLMetry", []string{"opentelemetry-instrumentation-langchain"},
		"no no no no no yes yes yes lost", "error no timeout cancelled lost success"},
	{"node-otel", "openai, OpenTelemetry", []string{"@opentelemetry/instrumentation-openai", "@opentelemetry/instrumentation-undici", "openai"},
		"yes status yes no no yes yes - yes", "timeout timeout success lost cancelled -"},
	{"node-otel-headers", "the same, captured headers", []string{"@opentelemetry/instrumentation-openai"},
		"yes status yes no no yes yes - yes", "timeout timeout success lost cancelled -"},
	{"node-openllmetry", "openai, OpenLLMetry", []string{"@traceloop/instrumentation-openai"},
		"yes status yes no no yes no - lost", "timeout timeout success lost error -"},
	{"node-openinference", "openai, OpenInference", []string{"@arizeai/openinference-instrumentation-openai"},
		"yes status yes no no yes no - yes", "timeout timeout success lost error -"},
	{"node-vercel", "Vercel AI SDK, OpenTelemetry", []string{"ai", "@ai-sdk/otel", "@ai-sdk/openai"},
		"yes status yes yes streams yes yes yes yes", "timeout - timeout success error error"},
	{"node-vercel-legacy", "Vercel AI SDK, LegacyOpenTelemetry", []string{"@ai-sdk/otel"},
		"yes status yes yes yes yes yes yes yes", "timeout - timeout success error error"},
}

func yes(ok bool) string {
	if ok {
		return "yes"
	}
	return "no"
}

// seen gives the word for one column from the recording of a scenario; get returns a recording by name, or nil.
func seen(get func(string) *fixture, sdk, column string) string {
	scenario := map[string]string{
		"attempts": "retry503", "why one failed": "retry503", "backoff": "retry503", "tokens": "retry503", "first token": "stream", "stream flag": "stream",
		"tokens of streams": "stream", "tool calls": "paralleltools", "embeddings": "embeddings", "504 to the last": "exhausted504", "attempt timed out": "timeout",
		"stream stalled": "stallstream", "stream dropped": "abortstream", "call cancelled": "abortcall", "tool failed": "toolerror",
	}[column]
	ownTools := strings.Contains(sdk, "vercel") || strings.Contains(sdk, "pydantic") || strings.Contains(sdk, "langchain")
	f := get(sdk + "-" + scenario)
	if f == nil || strings.HasPrefix(column, "tool ") && !ownTools {
		return "-"
	}
	if len(f.models) == 0 {
		return "lost"
	}
	o := f.models[0]
	attempts := f.attempts(o)
	switch column {
	case "attempts":
		return yes(o.Attempts != nil)
	case "why one failed":
		if len(attempts) > 1 && attempts[0].HTTPStatus == 503 {
			return "status"
		}
		return yes(len(attempts) > 1 && attempts[0].ErrorClass != "")
	case "backoff":
		return yes(o.BackoffNS > 0)
	case "first token":
		return yes(o.TTFTState == rows.TTFTKnown)
	case "stream flag":
		plain := get(sdk + "-retry503").models[0]
		switch {
		case o.Stream == rows.StreamUnknown:
			return "no"
		case plain.Stream == rows.StreamUnknown:
			return "streams"
		}
		return "yes"
	case "tokens", "tokens of streams":
		return yes(o.OutputTokens != nil)
	case "tool calls":
		return yes(len(f.tools) == len(f.truth.tools))
	case "tool failed":
		return outcomeWord(f.tools[0])
	case "embeddings":
		return "yes"
	case "attempt timed out":
		if len(attempts) == 0 {
			return "no"
		}
		return attempts[0].ErrorClass
	}
	return outcomeWord(o)
}

// outcomeWord tells how a failed operation looks: its class, "error" where nothing names it, or "success".
func outcomeWord(o *rows.Operation) string {
	switch {
	case o.Outcome == rows.OutcomeOK:
		return "success"
	case o.ErrorClass == rows.ClassOther:
		return "error"
	}
	return o.ErrorClass
}

func TestInstrumentationsPage(t *testing.T) {
	const page = "../../docs/instrumentations.md"
	versions := pinnedVersions(t)
	known, fixtures, names := map[string]bool{}, map[string]*fixture{}, recorded.Names(t)
	get := func(name string) *fixture {
		if fixtures[name] == nil && slices.Contains(names, name) {
			fixtures[name] = load(t, name)
		}
		return fixtures[name]
	}
	well := [][]string{append([]string{"instrumentation", "packages"}, wellColumns...)}
	badly := [][]string{append([]string{"instrumentation"}, badlyColumns...)}
	for _, i := range instrumentations {
		language, _, _ := strings.Cut(i.name, "-")
		for _, part := range []struct {
			cells   string
			columns []string
		}{{i.well, wellColumns}, {i.badly, badlyColumns}} {
			words := strings.Fields(part.cells)
			if len(words) != len(part.columns) {
				t.Fatalf("%s: %d cells, want %d", i.name, len(words), len(part.columns))
			}
			for k, column := range part.columns {
				if got := seen(get, i.name, column); got != words[k] {
					t.Errorf("%s, %s: the recording gives %q, the table says %q", i.name, column, got, words[k])
				}
			}
		}
		var packages []string
		for _, p := range i.packages {
			v, ok := versions[language+" "+p]
			if !ok {
				t.Fatalf("%s: no version of %s is pinned", i.name, p)
			}
			packages = append(packages, p+" "+v)
		}
		known[i.name] = true
		label := fmt.Sprintf("`%s`: %s", i.name, i.title)
		well = append(well, append([]string{label, strings.Join(packages, ", ")}, strings.Fields(i.well)...))
		badly = append(badly, append([]string{label}, strings.Fields(i.badly)...))
	}
	for _, name := range names {
		if sdk := name[:strings.LastIndexByte(name, '-')]; !known[sdk] {
			t.Errorf("%s is not on the page", sdk)
		}
	}
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(old)
	for name, table := range map[string][][]string{"well": well, "badly": badly} {
		marked := regexp.MustCompile(`(?s)(<!-- ` + name + `: written by a test -->\n).*?(<!-- end -->)`)
		if !marked.MatchString(text) {
			t.Fatalf("%s has no place for the table %q", page, name)
		}
		text = marked.ReplaceAllString(text, "${1}"+markdown(table)+"${2}")
	}
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if text != string(old) {
		t.Errorf("%s is stale: go test ./internal/genai -run TestInstrumentationsPage -update", page)
	}
}

func markdown(table [][]string) string {
	var b strings.Builder
	for i, row := range table {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString("|" + strings.Repeat(" --- |", len(row)) + "\n")
		}
	}
	return b.String()
}

// pinnedVersions are the versions of the traffic programs' packages, keyed by language and name.
func pinnedVersions(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, file := range []string{"requirements.txt", "requirements-langchain.txt"} {
		data, err := os.ReadFile("../../traffic/python/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			if name, version, ok := strings.Cut(strings.TrimSpace(line), "=="); ok {
				out["python "+name] = version
			}
		}
	}
	data, err := os.ReadFile("../../traffic/node/package.json")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct{ Dependencies map[string]string }
	if err := json.Unmarshal(data, &manifest); err != nil {
		t.Fatal(err)
	}
	for name, version := range manifest.Dependencies {
		out["node "+name] = version
	}
	return out
}
