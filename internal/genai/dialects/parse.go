package dialects

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Problem is one thing wrong with a document.
type Problem struct {
	// From is the file, or the configuration key, of the document.
	From string
	// Line is the line in the file, 0 for unknown.
	Line int
	// Path leads to the row, such as attributes[3].unit.
	Path string
	Text string
}

// Error gives the place and what is wrong there.
func (p Problem) Error() string {
	at := p.From
	if p.Line > 0 {
		at = fmt.Sprintf("%s:%d", at, p.Line)
	}
	if p.Path != "" {
		if strings.HasSuffix(p.From, ".yaml") || p.Line > 0 {
			at += ": " + p.Path
		} else {
			at += "." + p.Path
		}
	}
	return at + ": " + p.Text
}

// problems collects everything that is wrong.
type problems []error

func (p *problems) add(from string, at place, part, format string, args ...any) {
	path := at.path
	if part != "" {
		path = strings.TrimPrefix(path+"."+part, ".")
	}
	*p = append(*p, Problem{From: from, Line: at.line, Path: path, Text: fmt.Sprintf(format, args...)})
}

// Parse reads one document, strictly: unknown keys, wrong types, unknown words, and
// rows that say one thing twice are all reported together, as Problems joined to one
// error. from names the document in messages.
func Parse(from string, text []byte) (Document, error) {
	var root yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&root); err != nil {
		if errors.Is(err, io.EOF) {
			return Document{}, Problem{From: from, Text: "the document is empty: give at least `dialect`"}
		}
		return Document{}, Problem{From: from, Text: err.Error()}
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return Document{}, Problem{From: from, Text: "holds more than one document: use a file for each"}
	}
	return parse(from, root.Content[0], true)
}

// ParseValue reads a document that another decoder has read to maps and lists, such as a
// part of a configuration. from is its key.
func ParseValue(from string, value map[string]any) (Document, error) {
	text, err := yaml.Marshal(value)
	if err != nil {
		return Document{}, Problem{From: from, Text: err.Error()}
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return Document{}, Problem{From: from, Text: err.Error()}
	}
	return parse(from, root.Content[0], false)
}

func parse(from string, root *yaml.Node, lines bool) (Document, error) {
	var found problems
	keys(from, root, reflect.TypeFor[Document](), place{}, lines, &found)
	d := Document{from: from}
	if len(found) == 0 {
		if err := root.Decode(&d); err != nil {
			found = append(found, Problem{From: from, Text: err.Error()})
		}
	}
	if len(found) > 0 {
		return Document{}, errors.Join(found...)
	}
	d.place(root, lines)
	d.check(&found)
	return d, errors.Join(found...)
}

// keys reports unknown and repeated keys, and parts of another shape than t asks for.
func keys(from string, n *yaml.Node, t reflect.Type, at place, lines bool, found *problems) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if lines {
		at.line = n.Line
	}
	for n.Kind == yaml.AliasNode {
		found.add(from, at, "", "is an alias: write the value out")
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		if n.Kind != yaml.MappingNode {
			found.add(from, at, "", "must be a mapping of keys to values, is %s", shape(n))
			return
		}
		fields := fieldsOf(t)
		seen := map[string]bool{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			here := place{strings.TrimPrefix(at.path+"."+key.Value, "."), at.line}
			if lines {
				here.line = key.Line
			}
			field, known := fields[key.Value]
			switch {
			case !known:
				found.add(from, here, "", "unknown key; known are %s", strings.Join(fieldNames(t), ", "))
			case seen[key.Value]:
				found.add(from, here, "", "is given twice")
			default:
				keys(from, n.Content[i+1], field, here, lines, found)
			}
			seen[key.Value] = true
		}
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			found.add(from, at, "", "must be a list, is %s", shape(n))
			return
		}
		for i, c := range n.Content {
			keys(from, c, t.Elem(), place{fmt.Sprintf("%s[%d]", at.path, i), at.line}, lines, found)
		}
	default:
		if n.Kind != yaml.ScalarNode {
			found.add(from, at, "", "must be a single value, is %s", shape(n))
			return
		}
		if err := n.Decode(reflect.New(t).Interface()); err != nil || n.Tag == "!!null" {
			found.add(from, at, "", "must be a %s, is %q", map[reflect.Kind]string{reflect.Int: "whole number", reflect.Bool: "true or false", reflect.String: "text"}[t.Kind()], n.Value)
		}
	}
}

func shape(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return fmt.Sprintf("the value %q", n.Value)
}

func fieldsOf(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for f := range eachField(t) {
		out[f.Tag.Get("yaml")] = f.Type
	}
	return out
}

func fieldNames(t reflect.Type) []string {
	var out []string
	for f := range eachField(t) {
		out = append(out, f.Tag.Get("yaml"))
	}
	return out
}

func eachField(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && !yield(f) {
				return
			}
		}
	}
}

// place notes where each row stands.
func (d *Document) place(root *yaml.Node, lines bool) {
	for i := 0; i+1 < len(root.Content); i += 2 {
		part := root.Content[i].Value
		for k, row := range root.Content[i+1].Content {
			at := place{path: fmt.Sprintf("%s[%d]", part, k)}
			if lines {
				at.line = row.Line
			}
			switch part {
			case "attributes":
				d.Attributes[k].at = at
			case "rules":
				d.Rules[k].at = at
			case "events":
				d.Events[k].at = at
			}
		}
	}
}
