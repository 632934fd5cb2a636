package genai

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestTheDomainDependsOnNothingOutside keeps the domain free of what carries and stores
// it: no collector, no pdata, no database, no HTTP. What it may use is listed, so that a
// new module has to be let in here by name.
func TestTheDomainDependsOnNothingOutside(t *testing.T) {
	domain := []string{"driftline/internal/genai", "driftline/internal/genai/dialects", "driftline/internal/identity", "driftline/internal/rows", "driftline/internal/assemble"}
	allowed := map[string]bool{"github.com/cespare/xxhash/v2": true, "go.yaml.in/yaml/v3": true}
	for _, p := range domain {
		allowed[p] = true
		// Read here so that a cached result of this test dies with any change of them.
		if _, err := os.ReadDir("../" + strings.TrimPrefix(p, "driftline/internal/")); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", append([]string{"list", "-deps", "-f", "{{.ImportPath}} {{.Standard}}"}, domain...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		pkg, standard, _ := strings.Cut(strings.TrimSpace(line), " ")
		seen[pkg] = true
		switch {
		case standard == "true":
			if pkg == "net/http" || strings.HasPrefix(pkg, "net/http/") || pkg == "net/rpc" || pkg == "database/sql" || strings.HasPrefix(pkg, "database/sql/") {
				t.Errorf("the domain depends on %s", pkg)
			}
		case !allowed[pkg]:
			t.Errorf("the domain depends on %s: keep collectors, databases and HTTP out; if it is none of these, allow it in this test", pkg)
		}
	}
	for _, p := range domain {
		if !seen[p] {
			t.Errorf("go list did not list %s", p)
		}
	}
}
