package engine_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"driftline/internal/engine/enginetest"
)

var statistics = regexp.MustCompile(`,\s*"statistics":\s*\{[^}]*\}`)

// A streamed result is byte for byte the one that is held whole, in every format that has pieces to be joined.
func TestStreamedResultsAreTheWholeOnes(t *testing.T) {
	e := enginetest.Shared(t)
	if e.External() {
		t.Fatalf("this test is about the embedded engine: unset %s", enginetest.EnvDSN)
	}
	const strange = "number AS `a\"b\n\t\\c,d`, 'x\"\n\\],\n\n\t\"rows\": 1' AS `'s'`, [number] AS arr"
	for _, format := range []string{
		"TSV", "TSVWithNames", "TSVWithNamesAndTypes", "TabSeparatedWithNames", "CSV", "CSVWithNames", "CSVWithNamesAndTypes", "TSKV", "JSONEachRow", "JSONStringsEachRow",
		"JSONCompactEachRow", "JSONCompactEachRowWithNames", "JSONCompactEachRowWithNamesAndTypes", "JSONCompactStringsEachRowWithNames",
		"JSON", "JSONCompact", "JSONStrings", "JSONCompactStrings", "RowBinary", "RowBinaryWithNames", "RowBinaryWithNamesAndTypes", "Values", "MsgPack",
	} {
		for name, sql := range map[string]string{
			"nothing": "SELECT " + strange + " FROM numbers(10) WHERE number > 100", "one row": "SELECT " + strange + " FROM numbers(1)",
			"several pieces": "SELECT " + strange + " FROM numbers(66000)",
			"totals":         "SELECT number % 3 AS n, count() FROM numbers(10) GROUP BY n WITH TOTALS ORDER BY n",
			"limit":          "SELECT number AS n FROM numbers(1000) ORDER BY n LIMIT 3",
			"extremes":       "SELECT number AS n FROM numbers(10) SETTINGS extremes = 1",
			"array of rows":  "SELECT number AS n FROM numbers(10) SETTINGS output_format_json_array_of_rows = 1",
		} {
			// A single thread keeps the rows in order.
			params := url.Values{"default_format": {format}, "max_threads": {"1"}}
			streamed := statistics.ReplaceAllString(post(t, e, params, sql), "")
			params.Set("wait_end_of_query", "1")
			whole := statistics.ReplaceAllString(post(t, e, params, sql), "")
			if streamed != whole {
				at := 0
				for at < min(len(streamed), len(whole)) && streamed[at] == whole[at] {
					at++
				}
				t.Errorf("%s, %s: %d bytes streamed, %d whole, first difference at %d:\n%.100q\n%.100q", format, name, len(streamed), len(whole), at, streamed[at:], whole[at:])
			}
		}
	}
	if got := post(t, e, url.Values{"default_format": {"Native"}}, "SELECT 1 WHERE 0"); got != "" {
		t.Errorf("an empty Native result has bytes, unlike a server's: %q", got)
	}
}

func TestLimitsOfAStatement(t *testing.T) {
	e := enginetest.Shared(t)
	for name, c := range map[string]struct {
		params url.Values
		sql    string
		code   string
	}{
		"result rows":             {url.Values{"max_result_rows": {"100"}}, "SELECT number FROM numbers(100000)", "396"},
		"result rows, whole":      {url.Values{"max_result_rows": {"100"}, "wait_end_of_query": {"1"}}, "SELECT number FROM numbers(100000)", "396"},
		"result bytes":            {url.Values{"max_result_bytes": {"1000"}}, "SELECT number FROM numbers(100000) FORMAT JSON", "396"},
		"rows to read":            {url.Values{"max_rows_to_read": {"1000"}}, "SELECT count() FROM numbers(100000) WHERE NOT ignore(number)", "158"},
		"time":                    {url.Values{"max_execution_time": {"0.3"}}, "SELECT count() FROM numbers(1000000000000) WHERE NOT ignore(sipHash64(number))", "159"},
		"memory":                  {url.Values{"max_memory_usage": {"20000000"}}, "SELECT uniqExact(number) FROM numbers(10000000)", "241"},
		"in the statement":        {nil, "SELECT number FROM numbers(100000) SETTINGS max_result_rows = 100", "396"},
		"readonly stays readonly": {url.Values{"readonly": {"1"}}, "CREATE TABLE nope (a Int8) ENGINE = Memory", "164"},
	} {
		status, h, text, _ := call(t, e, http.MethodPost, c.params, strings.NewReader(c.sql), nil)
		// A statement that streams may already have sent its head.
		if h.Get("X-ClickHouse-Exception-Code") != c.code && !strings.Contains(text, "\r\nCode: "+c.code+". DB::Exception") {
			t.Errorf("%s: status %d, code %q, %.300q; want code %s", name, status, h.Get("X-ClickHouse-Exception-Code"), text, c.code)
		}
	}
}
