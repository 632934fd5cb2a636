package recorded

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/internal/fakellm"
)

// RequestsSuffix ends the name of the file that holds the test server's log of a fixture's attempts.
const RequestsSuffix = ".requests.json"

// Load returns a fixture's spans, each call with a fresh copy, and the test server's log of the attempts in that
// trace, ordered by arrival. It fails the test when the fixture is missing or damaged.
func Load(t testing.TB, name string) (ptrace.Traces, []fakellm.LogEntry) {
	t.Helper()
	dir, err := folder()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if err != nil {
		t.Fatalf("no fixture %q; there are %s: %v", name, strings.Join(Names(t), ", "), err)
	}
	traces, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(data)
	if err != nil {
		t.Fatalf("fixture %s is not OTLP JSON: %v", name, err)
	}
	data, err = os.ReadFile(filepath.Join(dir, name+RequestsSuffix))
	if err != nil {
		t.Fatalf("fixture %s has no request log: %v", name, err)
	}
	var entries []fakellm.LogEntry
	if err := json.Unmarshal(data, &entries); err != nil {
		t.Fatalf("fixture %s has a damaged request log: %v", name, err)
	}
	return traces, entries
}

// Names returns the names of all fixtures, sorted. A name is an SDK and a scenario, such as "node-otel-retry503".
func Names(t testing.TB) []string {
	t.Helper()
	dir, err := folder()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"+RequestsSuffix))
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(files))
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), RequestsSuffix))
	}
	slices.Sort(names)
	return names
}

// Lost says whether nothing in a fixture tells of its call: the instrumentation ends no span for it or knows no
// embeddings, and HTTP spans, where there are any, were answered well. See Partial for the others.
func Lost(name string) bool { return slices.Contains(lost, name) }

// Partial says whether the instrumentation of a fixture wrote no span for its call, which fails or is cancelled, so that
// the call is known by its HTTP spans only: these have a parent that never came.
func Partial(name string) bool { return slices.Contains(partial, name) }

var lost = []string{
	"node-openinference-abortstream", "node-openllmetry-abortstream", "node-openllmetry-embeddings",
	"node-otel-abortstream", "node-otel-headers-abortstream",
	"python-langchain-openinference-abortcall", "python-langchain-openinference-embeddings",
	"python-langchain-openllmetry-abortcall", "python-langchain-openllmetry-embeddings",
}

var partial = []string{
	"node-openinference-abortcall", "node-openinference-exhausted504", "node-openllmetry-abortcall", "node-openllmetry-exhausted504",
	"python-openllmetry-abortcall", "python-otel-abortcall", "python-otel-latest-abortcall",
}

// folder finds testdata/recorded from the working folder, which in a test is the package's own.
func folder() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "testdata", "recorded"), nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the working folder: fixtures can be loaded only from inside the repository")
		}
		dir = up
	}
}
