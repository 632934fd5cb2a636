package dialects

import "testing"

func TestBuiltInDocumentsAreRight(t *testing.T) {
	docs, err := BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range docs {
		if d.from != d.Dialect+".yaml" || d.Title == "" || d.Source == "" || d.Order == 0 {
			t.Errorf("%s: dialect %q, title %q, source %q, order %d", d.from, d.Dialect, d.Title, d.Source, d.Order)
		}
	}
}
