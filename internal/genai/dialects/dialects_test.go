package dialects

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestBuiltInDocumentsAreRight(t *testing.T) {
	docs, err := BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range docs {
		if d.from != d.Dialect+".yaml" || d.Title == "" || d.Source == "" || d.Order == 0 {
			t.Errorf("%s: dialect %q, title %q, source %q, order %d", d.from, d.Dialect, d.Title, d.Source, d.Order)
		}
		for _, c := range d.Content {
			for _, a := range d.Attributes {
				if a.Key == c {
					t.Errorf("%s: %s both states a fact and is content", d.from, c)
				}
			}
		}
	}
}

// lines gives each problem of a joined error.
func lines(err error) []string {
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return []string{err.Error()}
	}
	var out []string
	for _, e := range joined.Unwrap() {
		out = append(out, lines(e)...)
	}
	return out
}

// wantProblems checks that err holds exactly these problems, by how each begins.
func wantProblems(t *testing.T, err error, want ...string) {
	t.Helper()
	got := lines(err)
	for _, w := range want {
		if !slices.ContainsFunc(got, func(g string) bool { return strings.HasPrefix(g, w) }) {
			t.Errorf("no problem begins with %q", w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d problems, want %d", len(got), len(want))
	}
	if t.Failed() {
		t.Logf("problems:\n%s", strings.Join(got, "\n"))
	}
}

func TestParse_EveryProblemAtOnceWithFileAndRow(t *testing.T) {
	_, err := Parse("acme.yaml", []byte(`dialect: acme
colour: red
order: high
attributes:
  - {key: a, means: ttft, unit: s, prio: 1}
  - [b]
rules: none
`))
	wantProblems(t, err,
		`acme.yaml:2: colour: unknown key; known are dialect, title,`,
		`acme.yaml:3: order: must be a whole number, is "high"`,
		`acme.yaml:5: attributes[0].prio: unknown key; known are key, means, unit, precedence, header, only, disabled, note`,
		`acme.yaml:6: attributes[1]: must be a mapping of keys to values, is a list`,
		`acme.yaml:7: rules: must be a list, is the value "none"`)

	_, err = Parse("acme.yaml", []byte(`dialect: Acme Co
order: -1
first_token_from: call
recognise: {scopes: [acme, "", acme]}
attributes:
  - {key: a, means: ttft}
  - {key: b, means: speed}
  - {key: c, means: ttft, unit: furlongs}
  - {key: d, means: model, unit: s}
  - {key: a, means: ttft, unit: s}
  - {key: acme.prompt, means: model}
  - {key: acme.prompt_tokens, means: input_tokens}
  - {key: e, means: attempt, precedence: 100}
  - {key: f, means: deadline, unit: rfc3339}
  - {key: g, means: first_token_at, unit: unix_ms}
  - {key: "", means: model}
rules:
  - {of: acme_kind, values: [x], as: chat}
  - {of: operation, values: [], as: chat}
  - {of: operation, values: ["*x*"], as: chat}
  - {of: name, values: [x], as: call, or_first_word: true}
  - {of: name, values: [x], as: chat, step: 2000, streamed: "true", with: [colour], without: [shape]}
events:
  - {name: tick, means: token}
  - {name: tick, means: chunk}
subjects: {tool: [run]}
`))
	wantProblems(t, err,
		`acme.yaml: dialect: must be a lower-case name`, `acme.yaml: order: must be between 0 and 1000, is -1`, `acme.yaml: first_token_from: must be`,
		`acme.yaml: recognise.scopes[1]: is empty`, `acme.yaml: recognise.scopes[2]: names "acme" a second time`,
		`acme.yaml:6: attributes[0].unit: is missing: ttft is duration`, `acme.yaml:7: attributes[1].means: unknown meaning "speed"`,
		`acme.yaml:8: attributes[2].unit: unknown unit "furlongs"; known are ns, us, ms, s,`, `acme.yaml:9: attributes[3].unit: "s" is no unit of model, which is word`,
		`acme.yaml:10: attributes[4].key: "a" stands in two rows`, `acme.yaml:11: attributes[5].key: "acme.prompt" by its name holds what people or models wrote`,
		`acme.yaml:13: attributes[7].precedence: must be between 0 and 99`, `acme.yaml:14: attributes[8].unit: deadline is not read from "rfc3339"`,
		`acme.yaml:15: attributes[9].unit: first_token_at is not read from "unix_ms"`, `acme.yaml:16: attributes[10].key: is empty`,
		`acme.yaml:18: rules[0].of: unknown word "acme_kind"`, `acme.yaml:19: rules[1].values: is empty`, `acme.yaml:20: rules[2].values[0]: must be text with at most one`,
		`acme.yaml:21: rules[3].as: unknown word "call"`, `acme.yaml:21: rules[3].or_first_word: makes no sense`,
		`acme.yaml:22: rules[4].step: must be between`, `acme.yaml:22: rules[4].streamed: must be`, `acme.yaml:22: rules[4].with[0]: unknown meaning "colour"`,
		`acme.yaml:22: rules[4].without[0]: unknown meaning "shape"`, `acme.yaml:24: events[0].means: unknown word "token"`, `acme.yaml:25: events[1].name: "tick" stands in two rows`,
		`acme.yaml: subjects.tool[0]: must hold one`)
	for text, want := range map[string]string{
		"":                         "x.yaml: the document is empty",
		"dialect: a\n---\nb: c\n":  "x.yaml: holds more than one document",
		"dialect: [":               "x.yaml: yaml: ",
		"dialect: a\ndialect: a\n": "x.yaml:2: dialect: is given twice",
		"- dialect: a":             "x.yaml:1: must be a mapping",
	} {
		_, err := Parse("x.yaml", []byte(text))
		wantProblems(t, err, want)
	}
}

func document(t *testing.T, text string) Document {
	t.Helper()
	d, err := Parse("change", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestMerge_ChangesRows(t *testing.T) {
	base, err := Merge(nil, []Document{document(t, `{dialect: acme, order: 5, attributes: [{key: a, means: ttft, unit: s, precedence: 3, note: n}, {key: b, means: model}, {key: c, means: model}],
rules: [{of: operation, values: [x, y], as: chat}], events: [{name: e, means: chunk}, {name: f, means: chunk}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Merge(base, []Document{document(t, `{dialect: acme, attributes: [{key: a, unit: ms}, {key: b, disabled: true}, {key: c, precedence: 0, means: response_model}, {key: d, means: agent}],
rules: [{of: operation, values: [x], disabled: true}, {of: name, values: [z], as: tool}], events: [{name: e, disabled: true}, {name: f, means: retry}], recognise: {scopes: [acme]}}`)})
	if err != nil {
		t.Fatal(err)
	}
	d := got[0]
	if len(got) != 1 || d.Order != 5 || len(d.Attributes) != 3 || len(d.Events) != 1 || d.Events[0].Means != "retry" || d.Recognise.Scopes[0] != "acme" {
		t.Fatalf("%+v", d)
	}
	if a := d.Attributes[0]; a.Unit != "ms" || *a.Precedence != 3 || a.Note != "n" || a.Means != "ttft" {
		t.Errorf("a is %+v", a)
	}
	if c := d.Attributes[1]; c.Key != "c" || c.Means != "response_model" || *c.Precedence != 0 {
		t.Errorf("c is %+v", c)
	}
	if len(d.Rules) != 2 || d.Rules[0].Of != "name" || !slices.Equal(d.Rules[1].Values, []string{"y"}) {
		t.Errorf("rules are %+v", d.Rules)
	}
	if b := base[0]; len(b.Attributes) != 3 || b.Attributes[0].Unit != "s" || len(b.Rules[0].Values) != 2 || len(b.Events) != 2 {
		t.Errorf("the base was changed: %+v", b)
	}
}

func TestMerge_EveryProblemAtOnce(t *testing.T) {
	base, err := Merge(nil, []Document{document(t, `{dialect: one, order: 1, attributes: [{key: a, means: ttft, unit: s}, {key: b, means: model}, {key: c, means: agent, precedence: 3}], events: [{name: e, means: chunk}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Merge(base, []Document{
		document(t, `{dialect: one, attributes: [{key: x, disabled: true}, {key: y, unit: s}, {key: a, unit: unix_ms}, {key: b, means: agent}], rules: [{of: name, values: [q], disabled: true}], events: [{name: q, disabled: true}]}`),
		document(t, `{dialect: two, attributes: [{key: b, means: model}, {key: a, means: timeout, unit: s}, {key: c, means: agent, precedence: 4}], rules: [{of: name, values: [q], as: chat, seen: [three]}], events: [{name: e, means: retry}]}`),
	})
	wantProblems(t, err,
		`change:1: attributes[0].key: dialect one has no row "x" to disable`, `change:1: attributes[1].means: is missing: "y" is a new row of dialect one`,
		`change:1: attributes[2].unit: "unix_ms" does not suit ttft, which is duration`, `change:1: rules[0].values[0]: dialect one has no rule of name for "q" to disable`,
		`change:1: events[0].name: dialect one has no event "q" to disable`,
		`change:1: attributes[1].means: "a" means timeout here and ttft in dialect one`, `change:1: attributes[0].means: "b" means model here and agent in dialect one`,
		`change:1: attributes[2].precedence: "c" has precedence 3 in dialect one`,
		`change:1: rules[0].seen[0]: unknown dialect "three"`, `change:1: events[0].name: "e" is stated by dialect one already`)
}

func TestParseValue_NamesTheConfigurationKey(t *testing.T) {
	_, err := ParseValue("dialects[1]", map[string]any{"dialect": "acme", "attributes": []any{map[string]any{"key": "a", "means": "ttft", "unit": "m"}}, "shape": 1})
	wantProblems(t, err, `dialects[1].shape: unknown key`)
	_, err = ParseValue("dialects[1]", map[string]any{"dialect": "acme", "attributes": []any{map[string]any{"key": "a", "means": "ttft", "unit": "m"}}})
	wantProblems(t, err, `dialects[1].attributes[0].unit: unknown unit "m"`)
}
