package genai

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fieldCases are the public reports, and the statements of the problem, that this
// project answers with a test named after each: spans, traces, attempts, deadlines,
// tokens and memory. Where the right value is computed elsewhere, its test lies there.
var fieldCases = []string{
	"C1", "C2", "C3", "C5", "C6", "C8", "C10", "C12", "C13", "C14", "C16", "C18", "C19", "C21", "C22", "C24", "C25", "C26",
	"C28", "C30", "C32", "C33", "C35", "C36", "C37", "C39", "C40", "C41", "C42", "C44", "C46", "C47",
	"C70", "C72", "C74", "C75", "C76", "C78", "C79", "C89", "S2", "S3", "S6", "S9", "S10",
}

// TestEveryCaseHasItsTest fails when a case of the list has no test of its name, so that
// none is lost when tests move or are renamed.
func TestEveryCaseHasItsTest(t *testing.T) {
	named := regexp.MustCompile(`(?m)^func Test(?:[A-Z][a-z0-9][A-Za-z0-9]*)??([CS]\d+)(?:_|[A-Z]|\()`)
	have := map[string]bool{}
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2 || d.Name() == "node_modules" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range named.FindAllSubmatch(text, -1) {
			have[string(m[1])] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range fieldCases {
		if !have[id] {
			t.Errorf("case %s has no test named after it", id)
		}
	}
}
