package settings

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// field is one key of the file; of is what a section or a list's items hold.
type field struct {
	typ  reflect.Type
	of   map[string]field
	list bool
}

// fieldsOf lists the keys of T by its yaml tags.
func fieldsOf[T any]() map[string]field { return fields(reflect.TypeFor[T]()) }

func fields(t reflect.Type) map[string]field {
	out := map[string]field{}
	for i := range t.NumField() {
		f := t.Field(i)
		key, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case key == "-":
		case option == "inline":
			maps.Copy(out, fields(f.Type))
		case f.Type.Kind() == reflect.Struct:
			out[key] = field{typ: f.Type, of: fields(f.Type)}
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
			out[key] = field{typ: f.Type, of: fields(f.Type.Elem()), list: true}
		default:
			out[key] = field{typ: f.Type}
		}
	}
	return out
}

// whole says whether the field is a whole number. Durations are whole numbers of Go's, but
// are written with a unit.
func (f field) whole() bool {
	return f.typ != reflect.TypeFor[time.Duration]() && f.typ.Kind() >= reflect.Int && f.typ.Kind() <= reflect.Uint64
}

// fraction says whether a value is a number that decoding would cut off without a word.
func fraction(value *yaml.Node) bool {
	var f float64
	return value.Tag == "!!float" && value.Decode(&f) == nil && f != math.Trunc(f)
}

// checkKeys reports each key of node that is none of known, each that stands twice, and each
// whose value cannot be read. The last two it takes out, so that decoding finds none of them.
func checkKeys(node *yaml.Node, known map[string]field, at string, found *problems) {
	if node.Kind != yaml.MappingNode {
		return // decoding says so
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if line, twice := seen[key.Value]; twice {
			found.add("line %d: %s%s stands twice, first on line %d", key.Line, at, key.Value, line)
			node.Content = slices.Delete(node.Content, i, i+2)
			i -= 2
			continue
		}
		seen[key.Value] = key.Line
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		f, ok := known[key.Value]
		switch {
		case !ok:
			best := nearest(key.Value, known)
			found.add("line %d: %s%s is no setting%s", key.Line, at, key.Value, meant(best, known))
			if best != "" {
				found.unsure(at + best)
			}
			if at != "" {
				found.unsure(strings.TrimSuffix(at, ".") + ":") // what an override matches is not known
			}
		case f.list && value.Kind == yaml.SequenceNode:
			for k, item := range value.Content {
				if item.Kind != yaml.MappingNode && item.Kind != yaml.AliasNode {
					place := fmt.Sprintf("%s%s[%d]", at, key.Value, k)
					found.add("line %d: %s: want a mapping of settings", item.Line, place)
					found.unsure(place)
					value.Content[k] = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: item.Line}
					continue
				}
				checkKeys(item, f.of, fmt.Sprintf("%s%s[%d].", at, key.Value, k), found)
			}
		case f.list:
			found.add("line %d: %s%s: want a list", value.Line, at, key.Value)
		case f.of != nil && value.Kind == yaml.MappingNode:
			checkKeys(value, f.of, at+key.Value+".", found)
		default:
			wrong := f.mistakes(value)
			for _, w := range wrong {
				found.add("line %d: %s%s: %s", value.Line, at, key.Value, w)
			}
			if wrong != nil {
				found.unsure(at + key.Value)
				node.Content = slices.Delete(node.Content, i, i+2)
				i -= 2
			}
		}
	}
}

// mistakes says why a value cannot be the field's.
func (f field) mistakes(value *yaml.Node) (out []string) {
	if f.whole() && fraction(value) {
		return []string{fmt.Sprintf("cannot read the number `%s` as a whole number", value.Value)}
	}
	into := reflect.New(f.typ)
	err := value.Decode(into.Interface())
	var wrong *yaml.TypeError
	switch {
	case errors.As(err, &wrong):
		for _, e := range wrong.Errors {
			_, what, _ := strings.Cut(readable(e), ": ")
			out = append(out, what)
		}
	case err != nil:
		return []string{err.Error()}
	case f.typ.Kind() == reflect.Float64 && math.IsInf(into.Elem().Float(), 0):
		return []string{"want a finite number"}
	}
	return out
}

// nearest is the known key that is nearest to what was written, empty if none is near.
func nearest(key string, known map[string]field) string {
	best, least := "", len(key)/2+1
	for _, k := range slices.Sorted(maps.Keys(known)) {
		if d := distance(key, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// meant suggests the key that is nearest to what was written, or all that there are.
func meant(best string, known map[string]field) string {
	if best == "" {
		return "; settings here are " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")
	}
	return "; did you mean " + best + "?"
}

// distance is the number of letters to change, add or leave out (Levenshtein 1966).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
