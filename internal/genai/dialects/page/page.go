package main

import (
	"fmt"
	"strconv"
	"strings"

	"driftline/internal/genai/dialects"
)

const intro = `# Dialects

<!-- Written by ` + "`go generate ./internal/genai/dialects`" + `; do not edit. -->

How each instrumentation writes GenAI spans, and what driftline makes of it. The page is written from the same documents that the program reads
(` + "`internal/genai/dialects/*.yaml`" + `), one per dialect. A user can lay documents of the same shape over them with the processor's key ` + "`dialects`" + `;
[its README](../processor/genaisegment/README.md#dialects) has an example. Traces as each instrumentation writes them, with what they must become, are in ` + "`testdata/dialects`" + `.

How a span is read:
1. Each attribute states a fact. Where several state one, the lowest precedence wins. A key can have another unit in one dialect than in general.
2. Scope, keys, provider and name show which dialect it is. A span that shows several goes by the first of this page.
3. The first rule that fits says what it is, by step over all dialects; within a step whole values go before those with ` + "`*`" + `. Where none fits, a model's name beside a
   provider or usage is a call (but not on server spans), and HTTP and RPC spans are tries of the call around them.
4. Spans inside each other that say the same call are one operation. See the package comment of ` + "`internal/genai`" + `.

Keys under *content* carry what people and models wrote. They are never read, copied or stored, whatever the configuration says.

To add a dialect, write its document and its traces; the tests then hold the one to the other.
`

func page() (string, error) {
	docs, err := dialects.BuiltIn()
	if err != nil {
		return "", err
	}
	classes, err := dialects.ErrorClasses()
	if err != nil {
		return "", err
	}
	var w strings.Builder
	w.WriteString(intro)
	w.WriteString("\n## Index\n")
	table(&w, "dialect", "name in rows", "attributes", "rules")
	for i := range docs {
		d := &docs[i]
		name := code(d.Dialect)
		if d.Unnamed {
			name = "none"
		}
		row(&w, fmt.Sprintf("[%s](#%s)", d.Title, anchor(d.Title)), name, strconv.Itoa(len(d.Attributes)), strconv.Itoa(len(d.Rules)))
	}
	for i := range docs {
		dialect(&w, &docs[i])
	}
	errorTable(&w, classes)
	vocabulary(&w)
	return w.String(), nil
}

func dialect(w *strings.Builder, d *dialects.Document) {
	fmt.Fprintf(w, "\n## %s\nSource: %s.\n", d.Title, d.Source)
	var signs []string
	for _, s := range []struct {
		what string
		list []string
	}{{"scope", d.Recognise.Scopes}, {"attribute", d.Recognise.Keys}, {"provider", d.Recognise.Providers}} {
		if len(s.list) > 0 {
			signs = append(signs, s.what+" "+codes(s.list))
		}
	}
	if len(signs) > 0 {
		fmt.Fprintf(w, "Recognised by %s.\n", strings.Join(signs, "; "))
	}
	if d.MarksStreams {
		w.WriteString("Flags every streamed call: a first token without the flag is a contradiction.\n")
	}
	if d.FirstTokenFrom == "attempt" {
		w.WriteString("Times to the first token count from the last attempt.\n")
	}
	if len(d.Notes) > 0 {
		w.WriteString("\n")
	}
	for _, n := range d.Notes {
		fmt.Fprintf(w, "- %s\n", n)
	}
	if len(d.Attributes) > 0 {
		w.WriteString("\n")
		table(w, "attribute", "meaning", "unit", "precedence", "note")
		for i := range d.Attributes {
			a := &d.Attributes[i]
			precedence := 0
			if a.Precedence != nil {
				precedence = *a.Precedence
			}
			var notes []string
			if a.Header {
				notes = append(notes, "a request header, in every spelling")
			}
			if a.Only {
				notes = append(notes, "only on spans of this dialect")
			}
			if a.Note != "" {
				notes = append(notes, a.Note)
			}
			row(w, code(a.Key), a.Means, a.Unit, strconv.Itoa(precedence), strings.Join(notes, "; "))
		}
	}
	if len(d.Rules) > 0 {
		w.WriteString("\n")
		table(w, "step", "where", "is one of", "the span is", "note")
		for i := range d.Rules {
			r := &d.Rules[i]
			row(w, strconv.Itoa(r.Step), subject(r), codes(r.Values), result(r), conditions(r))
		}
	}
	if len(d.Events) > 0 {
		w.WriteString("\n")
		table(w, "event", "says", "note")
		for _, e := range d.Events {
			row(w, code(e.Name), e.Means, e.Note)
		}
	}
	if len(d.Content) > 0 {
		fmt.Fprintf(w, "\nContent: %s.\n", codes(d.Content))
	}
}

func subject(r *dialects.Rule) string {
	switch {
	case r.Of == "name":
		return "the name"
	case r.Of == "first_word":
		return "the name's first word"
	case r.OrFirstWord:
		return r.Of + ", else the name's first word"
	}
	return r.Of
}

func result(r *dialects.Rule) string {
	switch r.Streamed {
	case "yes":
		return r.As + ", streamed"
	case "no":
		return r.As + ", not streamed"
	}
	return r.As
}

func conditions(r *dialects.Rule) string {
	var out []string
	if len(r.Seen) > 0 {
		out = append(out, "only where "+strings.Join(r.Seen, " or ")+" shows")
	}
	if len(r.With) > 0 {
		out = append(out, "only with "+strings.Join(r.With, " and "))
	}
	if len(r.Without) > 0 {
		out = append(out, "not with "+strings.Join(r.Without, " or "))
	}
	if r.Instant {
		out = append(out, "only without duration")
	}
	if r.NotHTTP {
		out = append(out, "not if named like an HTTP call")
	}
	if r.Replaces != "" {
		out = append(out, "a parent "+code(r.Replaces)+" becomes structure")
	}
	if r.IgnoreCase {
		out = append(out, "in upper or lower case")
	}
	if r.Note != "" {
		out = append(out, r.Note)
	}
	return strings.Join(out, "; ")
}

func errorTable(w *strings.Builder, classes []dialects.ErrorClass) {
	w.WriteString("\n## Error classes\nThe HTTP status decides where it names a failure; then the whole name of the error after its package; then the first class in this order one of whose words the name\n" +
		"holds, in upper or lower case. Of an error's type only a name is kept: of `ValueError: text` the part before the colon, and of any other text `_OTHER`.\n" +
		"A failure that is *tried again* is evidence that a similar call after it is another attempt.\n\n")
	table(w, "class", "meaning", "tried again", "HTTP statuses", "whole names", "words", "examples of exceptions and `error.type`")
	for _, c := range classes {
		again := "no"
		if c.Retried {
			again = "yes"
		}
		row(w, code(c.Class), c.Meaning, again, strings.Join(c.Statuses, ", "), codes(c.Names), codes(c.Words), codes(c.Examples))
	}
}

func vocabulary(w *strings.Builder) {
	w.WriteString("\n## Words of the documents\nA fact of type word is a short text, of type flag also `\"True\"`, and numbers may be text.\n\n")
	table(w, "meaning", "type", "is")
	for _, m := range dialects.Meanings {
		row(w, code(m.Name), string(m.Type), m.Doc)
	}
	w.WriteString("\n")
	table(w, "unit", "of", "is")
	for _, u := range dialects.Units {
		row(w, code(u.Name), string(u.Of), u.Doc)
	}
	w.WriteString("\n")
	table(w, "a span is", "which is")
	for _, c := range dialects.Classes {
		row(w, code(c.Name), c.Doc)
	}
	w.WriteString("\n")
	table(w, "an event says", "which is")
	for _, e := range dialects.EventMeanings {
		row(w, code(e.Name), e.Doc)
	}
}

func table(w *strings.Builder, heads ...string) {
	row(w, heads...)
	row(w, strings.Split(strings.Repeat("---,", len(heads)-1)+"---", ",")...)
}

func row(w *strings.Builder, cells ...string) {
	for i := range cells {
		cells[i] = strings.ReplaceAll(cells[i], "|", `\|`)
	}
	fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
}

func code(s string) string {
	if strings.Contains(s, "`") {
		return "`` " + s + " ``"
	}
	return "`" + s + "`"
}

func codes(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = code(s)
	}
	return strings.Join(out, ", ")
}

// anchor is the link to a heading, as GitHub makes it.
func anchor(title string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
			b.WriteRune(r)
		}
	}
	return b.String()
}
