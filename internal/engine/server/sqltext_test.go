package server

import (
	"testing"

	"driftline/internal/chdb"
)

func TestAnalyse(t *testing.T) {
	for _, c := range []struct {
		text, sql, format, data string
		insert                  bool
	}{
		{"SELECT 1", "SELECT 1", "", "", false},
		{"SELECT 1 FORMAT JSON", "SELECT 1 FORMAT JSON", "JSON", "", false},
		{"select format from t where x = 'FORMAT CSV'", "select format from t where x = 'FORMAT CSV'", "", "", false},
		{"SELECT 1 FORMAT CSV SETTINGS max_threads = 1 -- FORMAT TSV", "SELECT 1 FORMAT CSV SETTINGS max_threads = 1 -- FORMAT TSV", "CSV", "", false},
		{"-- c\n/* d */ INSERT INTO t FORMAT Native\n\x02FORMAT", "-- c\n/* d */ INSERT INTO t ", "Native", "\x02FORMAT", true},
		{"INSERT INTO format (`values`, \"select\") VALUES (1)", "INSERT INTO format (`values`, \"select\") ", "Values", " (1)", true},
		{"INSERT INTO db.values SETTINGS a = 'FORMAT x' FORMAT CSV  \r\n 1", "INSERT INTO db.values SETTINGS a = 'FORMAT x' ", "CSV", " 1", true},
		{"INSERT INTO t FORMAT JSONEachRow {\"a\":1}", "INSERT INTO t ", "JSONEachRow", "{\"a\":1}", true},
		{"INSERT INTO FUNCTION file('x', 'CSV') SELECT 1", "INSERT INTO FUNCTION file('x', 'CSV') SELECT 1", "", "", false},
		{"INSERT INTO t (SELECT 1)", "INSERT INTO t (SELECT 1)", "", "", false},
		{"INSERT INTO t (a) WITH 1 AS x SELECT x", "INSERT INTO t (a) WITH 1 AS x SELECT x", "", "", false},
		{"INSERT INTO t", "INSERT INTO t", "", "", true},
	} {
		st := analyse([]byte(c.text))
		data := ""
		if st.insertData {
			data = c.text[st.dataOffset:]
		}
		if st.sql != c.sql || st.format != c.format || st.insertData != c.insert || data != c.data {
			t.Errorf("%q: %+v, data %q", c.text, st, data)
		}
	}
	if !analyse([]byte("INSERT INTO t SELECT a FROM input ('a UInt8') FORMAT CSV\n1")).inputSelect {
		t.Error("input() not seen")
	}
	if !analyse([]byte("SELECT 1 INTO OUTFILE 'x'")).outfile {
		t.Error("INTO OUTFILE not seen")
	}
}

func FuzzAnalyse(f *testing.F) {
	f.Add("INSERT INTO t (a) VALUES (1)")
	f.Add("SELECT $x$ FORMAT $x$ '\\")
	f.Fuzz(func(t *testing.T, text string) {
		if st := analyse([]byte(text)); st.dataOffset > len(text) {
			t.Errorf("data begins at %d of %d", st.dataOffset, len(text))
		}
	})
}

func TestExceptionText(t *testing.T) {
	for in, want := range map[string]chdb.Error{
		"Code: 60. DB::Exception: Table x does not exist. (UNKNOWN_TABLE)":                                        {Code: 60, Name: "UNKNOWN_TABLE", Message: "Table x does not exist."},
		"Error: Code: 1. DB::Exception: Code: 2. DB::Exception: m. (INNER_NAME) (version 26.7.2.1). (OUTER_NAME)": {Code: 1, Name: "OUTER_NAME", Message: "m."},
		"no code at all": {Message: "no code at all"},
	} {
		if got := *chdb.ParseError(in); got != want {
			t.Errorf("%q: %+v, want %+v", in, got, want)
		}
	}
}
