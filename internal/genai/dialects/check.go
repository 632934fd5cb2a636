package dialects

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	typeOf  = map[string]Type{}
	unitOf  = map[string]Type{}
	classes = map[string]bool{}
	says    = map[string]bool{}
)

func init() {
	for _, m := range Meanings {
		typeOf[m.Name] = m.Type
	}
	for _, u := range Units {
		unitOf[u.Name] = u.Of
	}
	for _, c := range Classes {
		classes[c.Name] = true
	}
	for _, e := range EventMeanings {
		says[e.Name] = true
	}
}

var goodName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)

var goodHeader = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// maxPrecedence is the highest precedence; the keys that a user lists come after.
const maxPrecedence = 99

// check reports what is wrong with d by itself.
func (d *Document) check(found *problems) {
	bad := func(at place, part, format string, args ...any) { found.add(d.from, at, part, format, args...) }
	top := place{}
	if !goodName.MatchString(d.Dialect) {
		bad(top, "dialect", "must be a lower-case name of at most 32 letters, digits and underscores, is %q", d.Dialect)
	}
	if d.Order < 0 || d.Order > 1000 {
		bad(top, "order", "must be between 0 and 1000, is %d", d.Order)
	}
	if d.FirstTokenFrom != "" && d.FirstTokenFrom != "attempt" {
		bad(top, "first_token_from", "must be `attempt` or left out, is %q", d.FirstTokenFrom)
	}
	d.checkAttributes(bad)
	d.checkRules(bad)
	events := map[string]bool{}
	for _, e := range d.Events {
		if !pattern(e.Name) {
			bad(e.at, "name", "must be a name with at most one `*`, is %q", e.Name)
		}
		if !e.Disabled && !says[e.Means] {
			bad(e.at, "means", "unknown word %q; known are %s", e.Means, names(EventMeanings, func(m EventMeaning) string { return m.Name }))
		}
		if events[e.Name] {
			bad(e.at, "name", "%q stands in two rows", e.Name)
		}
		events[e.Name] = true
	}
	for i, s := range slices.Concat(d.Subjects.Tool, d.Subjects.Agent) {
		if strings.Count(s, "*") != 1 {
			part := fmt.Sprintf("subjects.tool[%d]", i)
			if i >= len(d.Subjects.Tool) {
				part = fmt.Sprintf("subjects.agent[%d]", i-len(d.Subjects.Tool))
			}
			bad(top, part, "must hold one `*`, where the name stands, is %q", s)
		}
	}
	for _, l := range []struct {
		part string
		list []string
	}{
		{"recognise.scopes", d.Recognise.Scopes}, {"recognise.keys", d.Recognise.Keys}, {"recognise.providers", d.Recognise.Providers},
		{"subjects.tool", d.Subjects.Tool}, {"subjects.agent", d.Subjects.Agent}, {"content", d.Content},
	} {
		part, list := l.part, l.list
		for i, s := range list {
			if strings.TrimSpace(s) == "" || s == "*" {
				bad(place{path: fmt.Sprintf("%s[%d]", part, i)}, "", "is empty")
			} else if slices.Index(list, s) < i {
				bad(place{path: fmt.Sprintf("%s[%d]", part, i)}, "", "names %q a second time", s)
			}
		}
	}
}

func (d *Document) checkAttributes(bad func(place, string, string, ...any)) {
	rows := map[string]bool{}
	for _, a := range d.Attributes {
		if strings.TrimSpace(a.Key) == "" {
			bad(a.at, "key", "is empty: name an attribute")
		}
		if rows[a.Key] {
			bad(a.at, "key", "%q stands in two rows", a.Key)
		}
		rows[a.Key] = true
		if a.Header && !goodHeader.MatchString(a.Key) {
			bad(a.at, "key", "must be a header's name in lower case, is %q", a.Key)
		}
		if a.Disabled {
			continue
		}
		t, known := typeOf[a.Means]
		switch {
		case a.Means != "" && !known:
			bad(a.at, "means", "unknown meaning %q: docs/dialects.md lists all", a.Means)
		case known && t == Word && looksLikeContent(a.Key):
			bad(a.at, "key", "%q by its name holds what people or models wrote, which is never read", a.Key)
		}
		of, knownUnit := unitOf[a.Unit]
		switch {
		case a.Unit != "" && !knownUnit:
			bad(a.at, "unit", "unknown unit %q; known are %s", a.Unit, names(Units, func(u Unit) string { return u.Name }))
		case known && (t == Duration || t == Instant) && a.Unit == "":
			bad(a.at, "unit", "is missing: %s is %s", a.Means, t)
		case known && a.Unit != "" && of != t:
			bad(a.at, "unit", "%q is no unit of %s, which is %s", a.Unit, a.Means, t)
		case known && a.Means != "first_token_at" && a.Unit == "rfc3339" || a.Means == "first_token_at" && a.Unit != "rfc3339" && knownUnit:
			bad(a.at, "unit", "%s is not read from %q", a.Means, a.Unit)
		}
		if p := a.Precedence; p != nil && (*p < 0 || *p > maxPrecedence) {
			bad(a.at, "precedence", "must be between 0 and %d, is %d", maxPrecedence, *p)
		}
	}
}

func (d *Document) checkRules(bad func(place, string, string, ...any)) {
	for _, r := range d.Rules {
		if _, known := typeOf[r.Of]; !known && r.Of != "name" && r.Of != "first_word" {
			bad(r.at, "of", "unknown word %q: give name, first_word or a meaning, see docs/dialects.md", r.Of)
		}
		if len(r.Values) == 0 {
			bad(r.at, "values", "is empty: give at least one value")
		}
		for i, v := range r.Values {
			if !pattern(v) {
				bad(r.at, fmt.Sprintf("values[%d]", i), "must be text with at most one `*`, is %q", v)
			}
		}
		if !r.Disabled && !classes[r.As] {
			bad(r.at, "as", "unknown word %q; known are %s", r.As, names(Classes, func(c Class) string { return c.Name }))
		}
		if r.Step < 0 || r.Step > 1000 {
			bad(r.at, "step", "must be between 0 and 1000, is %d", r.Step)
		}
		if r.Streamed != "" && r.Streamed != "yes" && r.Streamed != "no" {
			bad(r.at, "streamed", "must be `yes` or `no`, is %q", r.Streamed)
		}
		if r.OrFirstWord && (r.Of == "name" || r.Of == "first_word") {
			bad(r.at, "or_first_word", "makes no sense beside `of: %s`", r.Of)
		}
		for i, m := range slices.Concat(r.With, r.Without) {
			if _, known := typeOf[m]; !known {
				part := fmt.Sprintf("with[%d]", i)
				if i >= len(r.With) {
					part = fmt.Sprintf("without[%d]", i-len(r.With))
				}
				bad(r.at, part, "unknown meaning %q: docs/dialects.md lists all", m)
			}
		}
	}
}

func pattern(s string) bool { return strings.TrimSpace(s) != "" && strings.Count(s, "*") <= 1 }

func names[T any](list []T, name func(T) string) string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = name(v)
	}
	return strings.Join(out, ", ")
}
