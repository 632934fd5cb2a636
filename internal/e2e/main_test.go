package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"driftline/internal/chdb"
)

// The programs under test, the root of the repository and the engine's library.
var detectd, collector, repository, library string

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (int, error) {
	var err error
	if repository, err = filepath.Abs("../.."); err != nil {
		return 0, err
	}
	if library, err = chdb.Locate(""); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "driftline-e2e-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", dir+"/", "./cmd/detectd", "./cmd/otelcol-driftline")
	build.Dir = repository
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	detectd, collector = filepath.Join(dir, "detectd"), filepath.Join(dir, "otelcol-driftline")
	return m.Run(), nil
}

// environment is this process's without what would change the programs' behaviour, and with env added.
func environment(env ...string) []string {
	var out []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "DRIFTLINE_") && !strings.HasPrefix(kv, "OTEL_") && !strings.HasPrefix(kv, "OPENAI_") {
			out = append(out, kv)
		}
	}
	return append(append(out, chdb.EnvLibrary+"="+library), env...)
}
