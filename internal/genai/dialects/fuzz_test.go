package dialects

import "testing"

// FuzzParse: any text gives a document or problems, and what was read can be merged.
func FuzzParse(f *testing.F) {
	names, err := files.ReadDir(".")
	if err != nil {
		f.Fatal(err)
	}
	for _, n := range names {
		text, err := files.ReadFile(n.Name())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("~"))
	f.Add([]byte("# nothing"))
	f.Add([]byte("dialect: a\nrules: [{of: name, values: ['*'], as: chat}]\nattributes: [&a {key: k, means: ttft, unit: s}, *a]"))
	base, err := BuiltIn()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Parse("x.yaml", text)
		if err != nil {
			return
		}
		merged, err := Merge(base, []Document{d})
		if err == nil && len(merged) < len(base) {
			t.Fatalf("%d documents became %d", len(base), len(merged))
		}
	})
}
