package server

import (
	"bytes"
	"strings"
)

// statement is what the endpoint must know of a text before the engine sees it.
type statement struct {
	// keyword is the first word, upper case; empty when there is none.
	keyword string
	// insertData is true for an INSERT whose rows follow as data, not as a SELECT.
	insertData bool
	// sql is the text to hand to the engine; for insertData without FORMAT or VALUES clause and without data.
	sql string
	// format is the one the text names; empty when it names none.
	format string
	// dataOffset is where the data of an insert begins in the text.
	dataOffset int
	// dataClause is true when FORMAT or VALUES was seen, so that data may begin right there.
	dataClause bool
	outfile    bool
	infile     bool
	// inputSelect is true for INSERT ... SELECT FROM input(...).
	inputSelect bool
	// second is the second word, upper case.
	second string
}

type tokenKind int

const (
	tokenEnd tokenKind = iota
	tokenWord
	tokenQuoted
	tokenOther
)

type token struct {
	kind       tokenKind
	start, end int
	depth      int
}

// lexer splits SQL text only as far as needed to find clauses outside quotes, comments and brackets.
type lexer struct {
	text  []byte
	pos   int
	depth int
}

func isWordStart(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
func isWordPart(c byte) bool { return isWordStart(c) || c >= '0' && c <= '9' || c == '$' }

func (l *lexer) next() token {
	l.skipBlank()
	if l.pos >= len(l.text) {
		return token{kind: tokenEnd, start: len(l.text), end: len(l.text), depth: l.depth}
	}
	start, c := l.pos, l.text[l.pos]
	switch {
	case isWordStart(c):
		for l.pos < len(l.text) && isWordPart(l.text[l.pos]) {
			l.pos++
		}
		return token{tokenWord, start, l.pos, l.depth}
	case c == '\'' || c == '"' || c == '`':
		l.skipQuoted(c)
		return token{tokenQuoted, start, l.pos, l.depth}
	case c == '$' && l.skipHeredoc():
		return token{tokenQuoted, start, l.pos, l.depth}
	case c >= '0' && c <= '9':
		for l.pos < len(l.text) && (isWordPart(l.text[l.pos]) || l.text[l.pos] == '.') {
			l.pos++
		}
		return token{tokenOther, start, l.pos, l.depth}
	case c == '(' || c == '[' || c == '{':
		l.pos++
		l.depth++
		return token{tokenOther, start, l.pos, l.depth - 1}
	case c == ')' || c == ']' || c == '}':
		l.pos++
		l.depth--
		return token{tokenOther, start, l.pos, l.depth}
	}
	l.pos++
	return token{tokenOther, start, l.pos, l.depth}
}

func (l *lexer) skipBlank() {
	for l.pos < len(l.text) {
		rest := l.text[l.pos:]
		switch c := rest[0]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v':
			l.pos++
		case bytes.HasPrefix(rest, []byte("--")), bytes.HasPrefix(rest, []byte("#!")), bytes.HasPrefix(rest, []byte("# ")):
			if i := bytes.IndexByte(rest, '\n'); i >= 0 {
				l.pos += i + 1
			} else {
				l.pos = len(l.text)
			}
		case bytes.HasPrefix(rest, []byte("/*")):
			if i := bytes.Index(rest[2:], []byte("*/")); i >= 0 {
				l.pos += i + 4
			} else {
				l.pos = len(l.text)
			}
		default:
			return
		}
	}
}

func (l *lexer) skipQuoted(quote byte) {
	l.pos++
	for l.pos < len(l.text) {
		switch l.text[l.pos] {
		case '\\':
			l.pos++
		case quote:
			// A doubled quote reads as an end and a new start, which is the same to this lexer.
			l.pos++
			return
		}
		l.pos++
	}
	l.pos = min(l.pos, len(l.text))
}

func (l *lexer) skipHeredoc() bool {
	end := bytes.IndexByte(l.text[l.pos+1:], '$')
	if end < 0 {
		return false
	}
	tag := l.text[l.pos : l.pos+end+2]
	for _, c := range tag[1 : len(tag)-1] {
		if !isWordPart(c) || c == '$' {
			return false
		}
	}
	body := l.pos + len(tag)
	if i := bytes.Index(l.text[body:], tag); i >= 0 {
		l.pos = body + i + len(tag)
		return true
	}
	return false
}

func (l *lexer) word(t token) string {
	if t.kind != tokenWord {
		return ""
	}
	return strings.ToUpper(string(l.text[t.start:t.end]))
}

// analyse reads as much of the text as it needs. For an INSERT with data it stops where the data begins, so the text may
// be only the head of a long body.
func analyse(text []byte) statement {
	l := &lexer{text: text}
	first := l.next()
	for first.kind == tokenOther && (text[first.start] == '(' || text[first.start] == ';') {
		first = l.next()
	}
	st := statement{keyword: l.word(first), sql: string(text)}
	if st.keyword == "INSERT" {
		l.analyseInsert(&st)
		return st
	}
	l.analyseOther(&st)
	return st
}

func (l *lexer) analyseInsert(st *statement) {
	previous := "INSERT"
	for {
		t := l.next()
		word := l.word(t)
		switch {
		case t.kind == tokenEnd, t.kind == tokenOther && l.text[t.start] == ';' && t.depth == 0:
			st.insertData = true
			st.sql = string(l.text[:t.start])
			st.dataOffset = t.end
			return
		case t.depth > 0:
			// The one bracket that matters holds a SELECT in place of a column list.
			if previous == "(" && (word == "SELECT" || word == "WITH") {
				l.analyseSelectTail(st)
				return
			}
		case previous == "INTO" && (word == "TABLE" || word == "FUNCTION"):
			previous = word
			continue
		case previous == "INTO" || previous == "TABLE" || previous == "FUNCTION" || previous == ".":
			// A name, whatever it is called.
			word = ""
		case word == "FORMAT":
			name := l.next()
			if name.kind != tokenWord {
				return
			}
			st.insertData, st.dataClause = true, true
			st.sql, st.format = string(l.text[:t.start]), string(l.text[name.start:name.end])
			st.dataOffset = skipToData(l.text, name.end)
			return
		case word == "VALUES":
			st.insertData, st.dataClause = true, true
			st.sql, st.format, st.dataOffset = string(l.text[:t.start]), "Values", t.end
			return
		case word == "FROM" && previous != "":
			if next := l.next(); l.word(next) == "INFILE" {
				st.infile = true
			}
			l.analyseSelectTail(st)
			return
		case word == "SELECT" || word == "WITH" || word == "WATCH":
			l.analyseSelectTail(st)
			return
		}
		previous = word
		if t.kind == tokenOther {
			previous = string(l.text[t.start:t.end])
		} else if previous == "" {
			previous = "name"
		}
	}
}

// skipToData steps over the blanks and the one line end that separate a format's name from the data.
func skipToData(text []byte, pos int) int {
	for pos < len(text) && (text[pos] == ' ' || text[pos] == '\t' || text[pos] == '\f') {
		pos++
	}
	if pos < len(text) && text[pos] == ';' {
		pos++
	}
	if pos < len(text) && text[pos] == '\r' {
		pos++
	}
	if pos < len(text) && text[pos] == '\n' {
		pos++
	}
	return pos
}

// analyseSelectTail looks for what an INSERT ... SELECT must not have here: input(), which stands for data after the
// statement and would make the engine read its own standard input.
func (l *lexer) analyseSelectTail(st *statement) {
	previous := ""
	for {
		t := l.next()
		if t.kind == tokenEnd {
			return
		}
		if previous == "INPUT" && l.text[t.start] == '(' {
			st.inputSelect = true
		}
		previous = l.word(t)
	}
}

func (l *lexer) analyseOther(st *statement) {
	seen := 0
	for {
		t := l.next()
		if t.kind == tokenEnd {
			return
		}
		word := l.word(t)
		if seen++; seen == 1 {
			st.second = word
		}
		if t.depth != 0 {
			continue
		}
		switch word {
		case "INTO":
			saved := *l
			if l.word(l.next()) == "OUTFILE" {
				st.outfile = true
			} else {
				*l = saved
			}
		case "FORMAT":
			saved := *l
			if name := l.next(); name.kind == tokenWord && l.endsClause() {
				st.format = string(l.text[name.start:name.end])
			} else {
				*l = saved
			}
		}
	}
}

// endsClause is true when nothing but SETTINGS or the end follows.
func (l *lexer) endsClause() bool {
	saved := *l
	defer func() { *l = saved }()
	t := l.next()
	return t.kind == tokenEnd || l.word(t) == "SETTINGS" || t.kind == tokenOther && l.text[t.start] == ';'
}
