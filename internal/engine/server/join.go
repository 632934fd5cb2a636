package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The engine formats each piece of a streamed result as a document of its own. A joiner makes one document of them, so that
// a result of any size passes through in bounded memory.
type joiner interface {
	// piece returns the parts of the document that a piece with so many rows adds; they are valid as long as the piece is.
	piece(b []byte, rows uint64) ([][]byte, error)
	// end returns what comes after the last piece.
	end(t totals) []byte
}

// totals are what the pieces' counters add up to.
type totals struct {
	readRows, readBytes uint64
	elapsed             time.Duration
}

// newJoiner returns the joiner of a format, or nil when its pieces cannot be joined and its results are held whole.
func newJoiner(format string) joiner {
	switch format {
	case "TabSeparated", "TSV", "TabSeparatedRaw", "TSVRaw", "Raw", "CSV", "TSKV", "LineAsString", "RawBLOB",
		"JSONEachRow", "JSONLines", "NDJSON", "JSONStringsEachRow", "JSONCompactEachRow", "JSONCompactStringsEachRow",
		"RowBinary", "Native", "MsgPack":
		return plainJoiner{}
	case "Values":
		return &separatedJoiner{separator: []byte(",")}
	case "JSON", "JSONCompact", "JSONStrings", "JSONCompactStrings":
		return &jsonJoiner{}
	case "RowBinaryWithNames":
		return &headedJoiner{head: func(b []byte) (int, bool) { return binaryHead(b, 1) }}
	case "RowBinaryWithNamesAndTypes":
		return &headedJoiner{head: func(b []byte) (int, bool) { return binaryHead(b, 2) }}
	}
	base, lines := strings.TrimSuffix(format, "WithNames"), 1
	if base == format {
		base, lines = strings.TrimSuffix(format, "WithNamesAndTypes"), 2
	}
	switch base {
	case format:
		return nil
	case "TabSeparated", "TSV", "TabSeparatedRaw", "TSVRaw", "Raw", "JSONCompactEachRow", "JSONCompactStringsEachRow":
		return &headedJoiner{head: func(b []byte) (int, bool) { return textHead(b, lines, false) }}
	case "CSV":
		return &headedJoiner{head: func(b []byte) (int, bool) { return textHead(b, lines, true) }}
	}
	return nil
}

// countedLimit is up to which LIMIT a JSON result is held whole, since the engine tells rows_before_limit_at_least only then.
const countedLimit = 100_000

// joinable is false for statements that change the shape of a piece: totals and extremes come as a piece of their own, and some
// settings wrap the rows.
func joinable(j joiner, sql string, settings []setting) bool {
	_, json := j.(*jsonJoiner)
	reshapes := func(name string) bool {
		switch name = strings.ToLower(name); name {
		case "totals", "extremes", "output_format_json_array_of_rows", "output_format_json_pretty_print", "output_format_write_statistics",
			"format_schema":
			return true
		}
		return false
	}
	for _, s := range settings {
		if reshapes(s.name) {
			return false
		}
	}
	l := &lexer{text: []byte(sql)}
	limit := false
	for {
		t := l.next()
		text := sql[t.start:t.end]
		switch {
		case t.kind == tokenEnd:
			return true
		case t.kind == tokenWord && reshapes(text):
			return false
		case limit && json:
			if n, err := strconv.ParseUint(text, 10, 64); err == nil && n <= countedLimit {
				return false
			}
		}
		limit = t.kind == tokenWord && t.depth == 0 && strings.EqualFold(text, "LIMIT")
	}
}

type plainJoiner struct{}

func (plainJoiner) piece(b []byte, _ uint64) ([][]byte, error) { return [][]byte{b}, nil }
func (plainJoiner) end(totals) []byte                          { return nil }

type separatedJoiner struct {
	separator []byte
	begun     bool
}

func (j *separatedJoiner) piece(b []byte, _ uint64) ([][]byte, error) {
	if !j.begun {
		j.begun = true
		return [][]byte{b}, nil
	}
	return [][]byte{j.separator, b}, nil
}

func (j *separatedJoiner) end(totals) []byte { return nil }

// headedJoiner leaves out the head of each piece but the first.
type headedJoiner struct {
	head  func(b []byte) (int, bool)
	begun bool
}

func (j *headedJoiner) piece(b []byte, _ uint64) ([][]byte, error) {
	if !j.begun {
		j.begun = true
		return [][]byte{b}, nil
	}
	n, ok := j.head(b)
	if !ok {
		return nil, errors.New("the engine sent a piece of the result without its head")
	}
	return [][]byte{b[n:]}, nil
}

func (j *headedJoiner) end(totals) []byte { return nil }

// textHead is the length of so many lines. With quotes, a line end inside double quotes is none.
func textHead(b []byte, lines int, quotes bool) (int, bool) {
	quoted := false
	for i, c := range b {
		switch {
		case c == '"' && quotes:
			quoted = !quoted
		case c == '\n' && !quoted:
			if lines--; lines == 0 {
				return i + 1, true
			}
		}
	}
	return 0, false
}

// binaryHead is the length of a column count and so many lists of strings.
func binaryHead(b []byte, lists int) (int, bool) {
	columns, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, false
	}
	for range columns * uint64(lists) {
		length, m := binary.Uvarint(b[n:])
		if m <= 0 || uint64(len(b)-n-m) < length {
			return 0, false
		}
		n += m + int(length)
	}
	return n, true
}

var (
	jsonDataMark = []byte("\t\"data\":\n\t[\n")
	jsonTailMark = []byte("\n\t],\n\n\t\"rows\": ")
)

// jsonJoiner takes the rows out of each piece's document. Inside strings there are no line ends, so the marks are unique.
type jsonJoiner struct {
	rows  uint64
	begun bool
}

func (j *jsonJoiner) piece(b []byte, rows uint64) ([][]byte, error) {
	start, end := bytes.Index(b, jsonDataMark), bytes.LastIndex(b, jsonTailMark)
	if start < 0 || end < 0 || end < start {
		return nil, errors.New("the engine sent a piece of a JSON document in a layout that cannot be joined: add wait_end_of_query=1 to have it held whole")
	}
	j.rows += rows
	if !j.begun {
		j.begun = true
		return [][]byte{b[:end]}, nil
	}
	return [][]byte{[]byte(",\n"), b[start+len(jsonDataMark) : end]}, nil
}

func (j *jsonJoiner) end(t totals) []byte {
	return fmt.Appendf(nil, "\n\t],\n\n\t\"rows\": %d,\n\n\t\"statistics\":\n\t{\n\t\t\"elapsed\": %.9f,\n\t\t\"rows_read\": %d,\n\t\t\"bytes_read\": %d\n\t}\n}\n",
		j.rows, t.elapsed.Seconds(), t.readRows, t.readBytes)
}
