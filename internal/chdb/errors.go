package chdb

import (
	"regexp"
	"strconv"
	"strings"
)

// Error is an exception of the engine.
type Error struct {
	// Code is ClickHouse's error code; 0 when the text has none.
	Code int
	// Name is the code's symbolic name such as UNKNOWN_TABLE; empty when the text has none.
	Name string
	// Message is the text without the "Code: N. DB::Exception:" prefix and without the name.
	Message string
}

// Error returns the exception as ClickHouse writes it.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Code != 0 {
		b.WriteString("Code: " + strconv.Itoa(e.Code) + ". DB::Exception: ")
	}
	b.WriteString(e.Message)
	if e.Name != "" {
		b.WriteString(" (" + e.Name + ")")
	}
	return b.String()
}

var (
	codePrefix = regexp.MustCompile(`Code: (\d+)\. (?:DB::Exception: )?`)
	nameSuffix = regexp.MustCompile(`\s*\(([A-Z][A-Z0-9_]{3,})\)[.\s]*(?:\(version [^)]*\))?[.\s]*$`)
)

// ParseError takes the engine's text apart. The engine nests an exception in itself when it crosses a border inside it;
// one layer is kept.
func ParseError(text string) *Error {
	e := &Error{Message: strings.TrimSpace(text)}
	for {
		m := codePrefix.FindStringSubmatchIndex(e.Message)
		if m == nil || m[0] > 0 && e.Code != 0 {
			break
		}
		if e.Code == 0 {
			e.Code, _ = strconv.Atoi(e.Message[m[2]:m[3]])
		}
		before := strings.TrimSuffix(strings.TrimSpace(e.Message[:m[0]]), "Error:")
		e.Message = before + e.Message[m[1]:]
	}
	for {
		m := nameSuffix.FindStringSubmatchIndex(e.Message)
		if m == nil {
			return e
		}
		if e.Name == "" {
			e.Name = e.Message[m[2]:m[3]]
		}
		e.Message = e.Message[:m[0]]
	}
}
