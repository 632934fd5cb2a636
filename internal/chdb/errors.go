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
	nameSuffix = regexp.MustCompile(`\s*\(([A-Z][A-Z0-9_]{3,})\)[.\s]*(?:\(version [^)]*\))?\s*$`)
)

// ParseError takes the engine's text apart.
func ParseError(text string) *Error {
	e := &Error{Message: strings.TrimSpace(text)}
	if m := codePrefix.FindStringSubmatchIndex(e.Message); m != nil {
		e.Code, _ = strconv.Atoi(e.Message[m[2]:m[3]])
		e.Message = e.Message[:m[0]] + e.Message[m[1]:]
		e.Message = strings.TrimSpace(strings.TrimPrefix(e.Message, "Error: "))
		e.Message = strings.TrimPrefix(e.Message, "DB::Exception: ")
	}
	if m := nameSuffix.FindStringSubmatchIndex(e.Message); m != nil {
		e.Name = e.Message[m[2]:m[3]]
		e.Message = e.Message[:m[0]]
	}
	return e
}
