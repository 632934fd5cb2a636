package dialects

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
)

//go:embed *.yaml
var files embed.FS

var builtIn = sync.OnceValues(func() ([]Document, error) {
	paths, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, err
	}
	var docs []Document
	var found []error
	for _, p := range paths {
		if p == errorsFile {
			continue
		}
		text, err := files.ReadFile(p)
		if err != nil {
			return nil, err
		}
		d, err := Parse(p, text)
		found = append(found, err)
		docs = append(docs, d)
	}
	if err := errors.Join(found...); err != nil {
		return nil, err
	}
	return Merge(nil, docs)
})

// BuiltIn gives the embedded documents by Order. Callers must not change them. A test
// holds that they are right, so an error is a fault of the build.
func BuiltIn() ([]Document, error) { return builtIn() }

// Merge lays changes over base and gives all documents by Order. A change with the name
// of a document in base adds to it: a row with a known key replaces what it gives of
// that row, a row with disabled takes it out, rules go before the document's own, and
// lists grow. A change with a new name is a new dialect. Everything wrong is reported
// together. base is left as it is.
func Merge(base, changes []Document) ([]Document, error) {
	out := slices.Clone(base)
	var found problems
	for _, c := range changes {
		at := slices.IndexFunc(out, func(d Document) bool { return d.Dialect == c.Dialect })
		if at < 0 {
			out = append(out, Document{Dialect: c.Dialect, from: c.from})
			at = len(out) - 1
		}
		d := &out[at]
		d.mergeHead(&c)
		d.mergeAttributes(&c, &found)
		d.mergeRules(&c, &found)
		d.mergeEvents(&c, &found)
	}
	across(out, &found) // before they are sorted, so that what is blamed is the change
	slices.SortStableFunc(out, func(x, y Document) int { return x.Order - y.Order })
	return out, errors.Join(found...)
}

func (d *Document) mergeHead(c *Document) {
	if c.Title != "" {
		d.Title = c.Title
	}
	if c.Source != "" {
		d.Source = c.Source
	}
	if c.Order != 0 {
		d.Order = c.Order
	}
	if c.FirstTokenFrom != "" {
		d.FirstTokenFrom = c.FirstTokenFrom
	}
	d.Unnamed = d.Unnamed || c.Unnamed
	d.MarksStreams = d.MarksStreams || c.MarksStreams
	d.Recognise.Scopes = slices.Concat(d.Recognise.Scopes, c.Recognise.Scopes)
	d.Recognise.Keys = slices.Concat(d.Recognise.Keys, c.Recognise.Keys)
	d.Recognise.Providers = slices.Concat(d.Recognise.Providers, c.Recognise.Providers)
	d.Subjects.Tool = slices.Concat(d.Subjects.Tool, c.Subjects.Tool)
	d.Subjects.Agent = slices.Concat(d.Subjects.Agent, c.Subjects.Agent)
	d.Content = slices.Concat(d.Content, c.Content)
	d.Notes = slices.Concat(d.Notes, c.Notes)
}

func (d *Document) mergeAttributes(c *Document, found *problems) {
	d.Attributes = slices.Clone(d.Attributes)
	for _, a := range c.Attributes {
		at := slices.IndexFunc(d.Attributes, func(have Attribute) bool { return have.Key == a.Key })
		a.from = c.from
		switch {
		case a.Disabled && at < 0:
			found.add(c.from, a.at, "key", "dialect %s has no row %q to disable", c.Dialect, a.Key)
		case a.Disabled:
			d.Attributes = slices.Delete(d.Attributes, at, at+1)
		case at < 0 && a.Means == "":
			found.add(c.from, a.at, "means", "is missing: %q is a new row of dialect %s", a.Key, c.Dialect)
		case at < 0:
			d.Attributes = append(d.Attributes, a)
		default:
			have := &d.Attributes[at]
			if a.Means != "" {
				have.Means = a.Means
			}
			if a.Unit != "" {
				have.Unit = a.Unit
			} else if t := typeOf[have.Means]; t != Duration && t != Instant {
				have.Unit = ""
			}
			if a.Precedence != nil {
				have.Precedence = a.Precedence
			}
			if a.Note != "" {
				have.Note = a.Note
			}
			have.Only = have.Only || a.Only
			have.Header = have.Header || a.Header
			have.at, have.from = a.at, a.from
			if t, of := typeOf[have.Means], unitOf[have.Unit]; have.Unit != "" && t != of || have.Unit == "" && (t == Duration || t == Instant) {
				found.add(c.from, a.at, "unit", "%q does not suit %s, which is %s", have.Unit, have.Means, t)
			}
			if typeOf[have.Means] == Word && looksLikeContent(a.Key) {
				found.add(c.from, a.at, "key", "%q by its name holds what people or models wrote, which is never read", a.Key)
			}
		}
	}
}

func (d *Document) mergeRules(c *Document, found *problems) {
	d.Rules = slices.Clone(d.Rules)
	var added []Rule
	for _, r := range c.Rules {
		r.from = c.from
		if !r.Disabled {
			added = append(added, r)
			continue
		}
		for i, v := range r.Values {
			hit := false
			for k := range d.Rules {
				have := &d.Rules[k]
				if have.Of == r.Of && slices.Contains(have.Values, v) {
					hit = true
					have.Values = slices.DeleteFunc(slices.Clone(have.Values), func(s string) bool { return s == v })
				}
			}
			if !hit {
				found.add(c.from, r.at, fmt.Sprintf("values[%d]", i), "dialect %s has no rule of %s for %q to disable", c.Dialect, r.Of, v)
			}
		}
	}
	d.Rules = slices.DeleteFunc(d.Rules, func(r Rule) bool { return len(r.Values) == 0 })
	d.Rules = append(added, d.Rules...)
}

func (d *Document) mergeEvents(c *Document, found *problems) {
	d.Events = slices.Clone(d.Events)
	for _, e := range c.Events {
		e.from = c.from
		at := slices.IndexFunc(d.Events, func(have Event) bool { return have.Name == e.Name })
		switch {
		case e.Disabled && at < 0:
			found.add(c.from, e.at, "name", "dialect %s has no event %q to disable", c.Dialect, e.Name)
		case e.Disabled:
			d.Events = slices.Delete(d.Events, at, at+1)
		case at < 0:
			d.Events = append(d.Events, e)
		default:
			d.Events[at] = e
		}
	}
}

func (a *Attribute) precedence() int {
	if a.Precedence == nil {
		return 0
	}
	return *a.Precedence
}

// maxNamed is how many dialects can name spans.
const maxNamed = 64

// across reports what documents say against each other.
func across(docs []Document, found *problems) {
	type statement struct {
		dialect string
		row     *Attribute
	}
	said := map[string][]statement{}
	named := map[string]bool{}
	content := ContentOf(docs)
	for i := range docs {
		if !docs[i].Unnamed {
			named[docs[i].Dialect] = true
		}
		for k := range docs[i].Attributes {
			a := &docs[i].Attributes[k]
			for _, key := range a.Keys() {
				if content.whole[key] {
					found.add(a.from, a.at, "key", "%q holds what people or models wrote, by a row of `content`, and is never read", key)
				}
				for _, s := range said[key] {
					switch {
					case s.row.Means != a.Means:
						found.add(a.from, a.at, "means", "%q means %s here and %s in dialect %s", key, a.Means, s.row.Means, s.dialect)
					case s.row.precedence() != a.precedence():
						found.add(a.from, a.at, "precedence", "%q has precedence %d in dialect %s, and a key can have only one: change it there", key, s.row.precedence(), s.dialect)
					}
				}
				said[key] = append(said[key], statement{docs[i].Dialect, a})
			}
		}
	}
	if len(named) > maxNamed {
		*found = append(*found, Problem{From: "dialects", Text: fmt.Sprintf("at most %d dialects can name spans, there are %d: mark some `unnamed`", maxNamed, len(named))})
	}
	events := map[string]string{}
	for i := range docs {
		d := &docs[i]
		for _, r := range d.Rules {
			for k, s := range r.Seen {
				if !named[s] {
					found.add(r.from, r.at, fmt.Sprintf("seen[%d]", k), "unknown dialect %q", s)
				}
			}
		}
		for _, e := range d.Events {
			if other, ok := events[e.Name]; ok {
				found.add(e.from, e.at, "name", "%q is stated by dialect %s already: change the row there", e.Name, other)
			}
			events[e.Name] = d.Dialect
		}
	}
}
