package engine_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"driftline/internal/engine/enginetest"
)

// call sends one request as curl does and returns status, headers and body.
func call(t testing.TB, e *enginetest.Engine, method string, params url.Values, body io.Reader, header http.Header) (int, http.Header, string, error) {
	t.Helper()
	req, err := http.NewRequest(method, e.URL(t)+"/?"+params.Encode(), body)
	must(t, err)
	for k, v := range header {
		req.Header[k] = v
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(text), err
}

// post is a call that must succeed.
func post(t testing.TB, e *enginetest.Engine, params url.Values, body string) string {
	t.Helper()
	status, _, text, err := call(t, e, http.MethodPost, params, strings.NewReader(body), nil)
	must(t, err)
	if status != http.StatusOK {
		t.Fatalf("%v %.200q: status %d: %s", params, body, status, text)
	}
	return text
}

func in(db string, more ...string) url.Values {
	v := url.Values{"database": {db}}
	for i := 0; i+1 < len(more); i += 2 {
		v.Set(more[i], more[i+1])
	}
	return v
}

func TestInsertFormats(t *testing.T) {
	e := enginetest.Shared(t)
	db := e.Database(t)
	post(t, e, in(db), "CREATE TABLE t (a UInt64, s String) ENGINE = MergeTree ORDER BY a")
	for _, c := range []struct {
		name, query, body string
	}{
		{"JSONEachRow in the body", "", "INSERT INTO t FORMAT JSONEachRow {\"a\":1,\"s\":\"x\"}\n{\"a\":2,\"s\":\"y;z\"}"},
		{"JSONEachRow after a query parameter", "INSERT INTO t FORMAT JSONEachRow", "{\"a\":1,\"s\":\"x\"}\n{\"a\":2,\"s\":\"y;z\"}"},
		{"CSV", "INSERT INTO t (a, s) FORMAT CSV", "1,x\n2,\"y;z\"\n"},
		{"CSV with settings", "INSERT INTO t (a, s) SETTINGS input_format_null_as_default = 1 FORMAT CSV", "1,x\n2,y;z\n"},
		{"TSV", "INSERT INTO t FORMAT TabSeparated", "1\tx\n2\ty;z"},
		{"Values", "", "INSERT INTO t VALUES (1, 'x'), (1 + 1, concat('y', ';z'));"},
		{"Values after a query parameter", "INSERT INTO t VALUES", "(1, 'x'), (2, 'y;z')"},
		{"select", "", "INSERT INTO t SELECT number + 1, if(number = 0, 'x', 'y;z') FROM numbers(2)"},
		{"select in brackets", "", "INSERT INTO t (a, s) (SELECT number + 1, if(number = 0, 'x', 'y;z') FROM numbers(2))"},
	} {
		t.Run(c.name, func(t *testing.T) {
			post(t, e, in(db), "TRUNCATE TABLE t")
			params := in(db)
			if c.query != "" {
				params.Set("query", c.query)
			}
			status, header, text, err := call(t, e, http.MethodPost, params, strings.NewReader(c.body), nil)
			must(t, err)
			if status != http.StatusOK || text != "" {
				t.Fatalf("status %d: %s", status, text)
			}
			var sum map[string]string
			must(t, json.Unmarshal([]byte(header.Get("X-ClickHouse-Summary")), &sum))
			if sum["written_rows"] != "2" {
				t.Errorf("summary says %q rows written, want 2", sum["written_rows"])
			}
			if got := post(t, e, in(db), "SELECT a, s FROM t ORDER BY a"); got != "1\tx\n2\ty;z\n" {
				t.Errorf("stored %q", got)
			}
		})
	}
}

func TestOutputFormats(t *testing.T) {
	e := enginetest.Shared(t)
	for format, want := range map[string]string{
		"TSV": "0\ta\\'b\n1\ta\\'b\n", "CSV": "0,\"a'b\"\n1,\"a'b\"\n", "CSVWithNames": "\"n\",\"s\"\n0,\"a'b\"\n1,\"a'b\"\n",
		"JSONEachRow": "{\"n\":0,\"s\":\"a'b\"}\n{\"n\":1,\"s\":\"a'b\"}\n", "Values": "(0,'a\\'b'),(1,'a\\'b')",
	} {
		t.Run(format, func(t *testing.T) {
			if got := post(t, e, url.Values{}, "SELECT number AS n, 'a\\'b' AS s FROM numbers(2) FORMAT "+format); got != want {
				t.Errorf("FORMAT clause: got %q, want %q", got, want)
			}
			if got := post(t, e, url.Values{"default_format": {format}}, "SELECT number AS n, 'a\\'b' AS s FROM numbers(2)"); got != want {
				t.Errorf("default_format: got %q, want %q", got, want)
			}
		})
	}
	t.Run("JSON is one document however large", func(t *testing.T) {
		var doc struct {
			Rows int
			Data []struct{ N string }
		}
		must(t, json.Unmarshal([]byte(post(t, e, url.Values{}, "SELECT number AS N FROM numbers(300000) FORMAT JSON SETTINGS output_format_json_quote_64bit_integers = 1")), &doc))
		if doc.Rows != 300000 || len(doc.Data) != 300000 || doc.Data[299999].N != "299999" {
			t.Errorf("%d rows said, %d there", doc.Rows, len(doc.Data))
		}
	})
	t.Run("headers", func(t *testing.T) {
		status, h, text, err := call(t, e, http.MethodGet, url.Values{"query": {"SELECT 1 FORMAT JSONEachRow"}, "query_id": {"my-id"}}, nil, nil)
		must(t, err)
		if status != 200 || text != "{\"1\":1}\n" || h.Get("X-ClickHouse-Query-Id") != "my-id" || h.Get("X-ClickHouse-Timezone") == "" || h.Get("X-ClickHouse-Format") != "JSONEachRow" ||
			!strings.HasPrefix(h.Get("Content-Type"), "application/x-ndjson") || h.Get("X-ClickHouse-Server-Display-Name") == "" || h.Get("X-ClickHouse-Summary") == "" {
			t.Errorf("status %d, body %q, headers %v", status, text, h)
		}
	})
}

func TestParametersAndSettings(t *testing.T) {
	e := enginetest.Shared(t)
	got := post(t, e, url.Values{"param_a": {"5"}, "param_s": {"x' OR 1=1 --"}, "param_arr": {"[1,2]"}}, "SELECT {a:UInt8} + 1, {s:String}, arraySum({arr:Array(UInt8)})")
	if got != "6\tx\\' OR 1=1 --\t3\n" {
		t.Errorf("parameters: %q", got)
	}
	if got := post(t, e, url.Values{"max_threads": {"1"}, "max_execution_time": {"7"}}, "SELECT getSetting('max_threads'), getSetting('max_execution_time')"); got != "1\t7\n" {
		t.Errorf("settings: %q", got)
	}
	if got := post(t, e, url.Values{}, "SELECT getSetting('max_threads') = 1, getSetting('max_execution_time') = 7"); strings.HasSuffix(got, "1\n") {
		t.Errorf("settings of one request leaked into the next: %q", got)
	}
	db := e.Database(t)
	post(t, e, in(db), "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = 100")
	for _, token := range []string{"one", "one", "two"} {
		post(t, e, in(db, "insert_deduplication_token", token, "query", "INSERT INTO t FORMAT CSV"), "1\n")
	}
	if got := post(t, e, in(db), "SELECT count() FROM t"); got != "2\n" {
		t.Errorf("three inserts with two deduplication tokens left %q rows, want 2", got)
	}
}

func TestRequestAndReplyEncodings(t *testing.T) {
	e := enginetest.Shared(t)
	encode := map[string]func([]byte) []byte{
		"gzip": func(b []byte) []byte {
			var out bytes.Buffer
			w := gzip.NewWriter(&out)
			_, _ = w.Write(b)
			_ = w.Close()
			return out.Bytes()
		},
		"zstd": func(b []byte) []byte {
			w, _ := zstd.NewWriter(nil)
			return w.EncodeAll(b, nil)
		},
		"lz4": func(b []byte) []byte {
			var out bytes.Buffer
			w := lz4.NewWriter(&out)
			_, _ = w.Write(b)
			_ = w.Close()
			return out.Bytes()
		},
	}
	decode := map[string]func(io.Reader) (io.Reader, error){
		"gzip": func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
		"zstd": func(r io.Reader) (io.Reader, error) { d, err := zstd.NewReader(r); return d, err },
		"lz4":  func(r io.Reader) (io.Reader, error) { return lz4.NewReader(r), nil },
	}
	for name := range encode {
		t.Run(name, func(t *testing.T) {
			db := e.Database(t)
			post(t, e, in(db), "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
			var rows bytes.Buffer
			for i := range 100000 {
				fmt.Fprintln(&rows, i)
			}
			whole := encode[name](rows.Bytes())
			status, _, text, err := call(t, e, http.MethodPost, in(db, "query", "INSERT INTO t FORMAT TSV"), bytes.NewReader(whole), http.Header{"Content-Encoding": {name}})
			must(t, err)
			if status != 200 {
				t.Fatalf("insert: %d %s", status, text)
			}
			status, header, text, err := call(t, e, http.MethodPost, in(db), strings.NewReader("SELECT a FROM t ORDER BY a"), http.Header{"Accept-Encoding": {name}})
			must(t, err)
			if status != 200 || header.Get("Content-Encoding") != name {
				t.Fatalf("status %d, Content-Encoding %q", status, header.Get("Content-Encoding"))
			}
			r, err := decode[name](strings.NewReader(text))
			must(t, err)
			plain, err := io.ReadAll(r)
			must(t, err)
			if !bytes.Equal(plain, rows.Bytes()) {
				t.Errorf("%d bytes came back, %d went in", len(plain), rows.Len())
			}
			// A body that breaks off leaves nothing behind.
			status, header, text, err = call(t, e, http.MethodPost, in(db, "query", "INSERT INTO t FORMAT TSV"), bytes.NewReader(whole[:len(whole)/2]), http.Header{"Content-Encoding": {name}})
			must(t, err)
			if status != 400 || header.Get("X-ClickHouse-Exception-Code") != "33" {
				t.Errorf("cut body: status %d, %s", status, text)
			}
			if got := post(t, e, in(db), "SELECT count() FROM t"); got != "100000\n" {
				t.Errorf("after a cut body there are %q rows", got)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	e := enginetest.Shared(t)
	db := e.Database(t)
	post(t, e, in(db), "CREATE TABLE t (a UInt64, f AggregateFunction(uniq, String)) ENGINE = MergeTree ORDER BY a")
	for _, c := range []struct {
		name         string
		method       string
		params       url.Values
		body         string
		status, code int
		text         string
	}{
		{"syntax", "POST", nil, "SELEC 1 FROM", 400, 62, "Syntax error"},
		{"empty", "POST", nil, "  ", 400, 62, "Empty query"},
		{"unknown table", "POST", nil, "SELECT * FROM nope", 404, 60, "nope"},
		{"unknown column", "POST", nil, "SELECT nope FROM t", 404, 47, "nope"},
		{"unknown database", "POST", url.Values{"database": {"nodb"}}, "SELECT 1", 404, 81, "nodb"},
		{"unknown setting", "POST", url.Values{"no_such_setting": {"1"}}, "SELECT 1", 404, 115, "no_such_setting"},
		{"bad setting name", "POST", url.Values{"a b": {"1"}}, "SELECT 1", 400, 36, "a b"},
		{"unknown format", "POST", nil, "SELECT 1 FORMAT Nope", 404, 73, "Nope"},
		{"bad rows", "POST", nil, "INSERT INTO t (a) FORMAT JSONEachRow {\"a\":\"x\"}", 400, 27, "Cannot parse"},
		{"insert into nowhere", "POST", nil, "INSERT INTO nope FORMAT CSV\n1", 404, 60, "nope"},
		{"time limit", "POST", url.Values{"max_execution_time": {"0.2"}}, "SELECT count() FROM numbers(1000000000000) WHERE NOT ignore(sipHash64(number))", 408, 159, "Timeout"},
		{"memory limit", "POST", url.Values{"max_memory_usage": {"20000000"}}, "SELECT uniqExact(number) FROM numbers(10000000)", 500, 241, "memory limit"},
		{"result held whole and too large", "POST", url.Values{"max_memory_usage": {"50000000"}}, "SELECT repeat('x', 1000) FROM numbers(100000) FORMAT JSON", 500, 241, "memory limit"},
		{"writing by GET", "GET", url.Values{"query": {"CREATE TABLE g (a Int8) ENGINE = Memory"}}, "", 500, 164, "readonly"},
		{"several statements", "POST", nil, "SELECT 1; SELECT 2", 501, 48, "one by one"},
		{"session", "POST", url.Values{"session_id": {"s"}}, "SELECT 1", 501, 48, "session"},
		{"outfile", "POST", nil, "SELECT 1 INTO OUTFILE '/tmp/x'", 501, 48, "OUTFILE"},
		{"infile", "POST", nil, "INSERT INTO t FROM INFILE '/tmp/x' FORMAT CSV", 501, 48, "INFILE"},
		{"input()", "POST", nil, "INSERT INTO t (a) SELECT a FROM input('a UInt64') FORMAT CSV\n1\n", 501, 48, "input()"},
		{"shutdown", "POST", nil, "SYSTEM SHUTDOWN", 501, 48, "SHUTDOWN"},
		{"content encoding", "POST", nil, "", 501, 48, "Content-Encoding"},
		{"native type without a decoder", "POST", url.Values{"default_format": {"Native"}, "client_protocol_version": {"54460"}}, "SELECT uniqState('x') AS st", 500, 1001, "st"},
	} {
		t.Run(c.name, func(t *testing.T) {
			params := in(db)
			for k, v := range c.params {
				params[k] = v
			}
			header := http.Header{}
			if c.name == "content encoding" {
				header.Set("Content-Encoding", "snappy")
			}
			status, h, text, err := call(t, e, c.method, params, strings.NewReader(c.body), header)
			must(t, err)
			if status != c.status || h.Get("X-ClickHouse-Exception-Code") != strconv.Itoa(c.code) ||
				!strings.HasPrefix(text, fmt.Sprintf("Code: %d. DB::Exception: ", c.code)) || !strings.Contains(text, c.text) {
				t.Errorf("status %d, code %s, body %.300q; want %d, %d, …%s…", status, h.Get("X-ClickHouse-Exception-Code"), text, c.status, c.code, c.text)
			}
		})
	}
	if got := post(t, e, in(db), "SELECT count() FROM t"); got != "0\n" {
		t.Errorf("failed inserts left %q rows", got)
	}
}

// An error after rows were sent must not look like a whole result.
func TestErrorAfterTheFirstRows(t *testing.T) {
	e := enginetest.Shared(t)
	status, h, text, err := call(t, e, http.MethodPost, nil, strings.NewReader("SELECT throwIf(number = 3000000) FROM numbers(100000000) SETTINGS max_threads = 1"), nil)
	if err == nil {
		t.Error("the connection ended as if the result were whole")
	}
	if tag := h.Get("X-ClickHouse-Exception-Tag"); status != 200 || len(tag) != 16 || !strings.Contains(text, "\r\n__exception__\r\n"+tag+"\r\nCode: 395. DB::Exception: ") {
		t.Errorf("status %d, tag %q, end %q", status, h.Get("X-ClickHouse-Exception-Tag"), text[max(0, len(text)-300):])
	}
}

func TestPingAndPaths(t *testing.T) {
	e := enginetest.Shared(t)
	for path, want := range map[string]int{"/ping": 200, "/": 200, "/nowhere": 404} {
		resp, err := http.Get(e.URL(t) + path)
		must(t, err)
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want || want == 200 && string(text) != "Ok.\n" {
			t.Errorf("%s: %d %q", path, resp.StatusCode, text)
		}
	}
	status, _, text, err := call(t, e, http.MethodPost, nil, strings.NewReader("SELECT 1"), http.Header{"Origin": {"http://evil.example"}})
	must(t, err)
	if status != 403 {
		t.Errorf("a web page's request got %d %q", status, text)
	}
	for host, want := range map[string]int{"evil.example": 421, "127.0.0.1.evil.example:80": 421, "localhost": 200, "[::1]:8123": 200} {
		req, err := http.NewRequest(http.MethodGet, e.URL(t)+"/?query=SELECT+1", nil)
		must(t, err)
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("host %q: %d, want %d", host, resp.StatusCode, want)
		}
	}
}

func TestPassword(t *testing.T) {
	t.Setenv("DRIFTLINE_ENGINE_PASSWORD", "sesame")
	e := enginetest.Start(t, "--user=ada")
	query := func(h http.Header, p url.Values) (int, string) {
		status, rh, _, err := call(t, e, http.MethodPost, p, strings.NewReader("SELECT 1"), h)
		must(t, err)
		return status, rh.Get("X-ClickHouse-Exception-Code")
	}
	basic := func(u, p string) http.Header {
		r, _ := http.NewRequest("GET", "/", nil)
		r.SetBasicAuth(u, p)
		return r.Header
	}
	for name, c := range map[string]struct {
		h      http.Header
		p      url.Values
		status int
		code   string
	}{
		"none":       {nil, nil, 401, "194"},
		"wrong":      {basic("ada", "x"), nil, 403, "516"},
		"wrong user": {basic("bob", "sesame"), nil, 403, "516"},
		"basic":      {basic("ada", "sesame"), nil, 200, ""},
		"headers":    {http.Header{"X-Clickhouse-User": {"ada"}, "X-Clickhouse-Key": {"sesame"}}, nil, 200, ""},
		"parameters": {nil, url.Values{"user": {"ada"}, "password": {"sesame"}}, 200, ""},
	} {
		if status, code := query(c.h, c.p); status != c.status || code != c.code {
			t.Errorf("%s: status %d code %q, want %d %q", name, status, code, c.status, c.code)
		}
	}
}

// A client that begins an insert, or asks for much, and then does nothing must give its turn to others.
func TestStalledClientsLoseTheirTurn(t *testing.T) {
	e := enginetest.Start(t, "--max-concurrent=1", "--stall-timeout=300ms")
	post(t, e, nil, "CREATE TABLE stalled (a String) ENGINE = MergeTree ORDER BY a")
	addr := strings.TrimPrefix(e.URL(t), "http://")
	for name, text := range map[string]string{
		"insert": "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\nINSERT INTO stalled FORMAT TSV\n" + strings.Repeat("x\n", 40_000),
		"select": "GET /?query=SELECT+number+FROM+numbers(100000000) HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		peer, err := net.Dial("tcp", addr)
		must(t, err)
		defer peer.Close()
		_, err = peer.Write([]byte(text))
		must(t, err)
		if got := post(t, e, nil, "SELECT 1"); got != "1\n" {
			t.Errorf("beside a stalled %s: %q", name, got)
		}
	}
	if got := post(t, e, nil, "SELECT count() FROM stalled"); got != "0\n" {
		t.Errorf("rows of an insert that never ended: %s", got)
	}
}

func TestNothingOutsideTheFolderIsReached(t *testing.T) {
	e := enginetest.Shared(t)
	for _, sql := range []string{
		"SELECT * FROM file('/etc/passwd', 'LineAsString')", "SELECT file('/etc/passwd')",
		"SELECT * FROM `/etc/passwd`", "SELECT * FROM '/etc/passwd'", "INSERT INTO FUNCTION file('/tmp/x', 'CSV', 'a Int8') VALUES (1)",
	} {
		status, _, text, err := call(t, e, http.MethodPost, nil, strings.NewReader(sql), nil)
		must(t, err)
		if status < 400 || strings.Contains(text, "root:") {
			t.Errorf("%s: %d %.100q", sql, status, text)
		}
	}
	status, _, text, err := call(t, e, http.MethodPost, url.Values{"param_t": {"/etc/passwd"}}, strings.NewReader("SELECT * FROM {t:Identifier}"), nil)
	must(t, err)
	if status < 400 {
		t.Errorf("by parameter: %d %.100q", status, text)
	}
}

func TestSaturation(t *testing.T) {
	e := enginetest.Start(t, "--max-concurrent=1", "--max-queued=1", "--queue-timeout=300ms")
	ctx, cancel := context.WithCancel(context.Background())
	slow := make(chan error, 1)
	go func() {
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, e.URL(t)+"/?query_id=slow", strings.NewReader("SELECT count() FROM numbers(1000000000000) WHERE NOT ignore(sipHash64(number))"))
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		slow <- err
	}()
	// Until the slow statement has the only slot, this one may get through.
	deadline := time.Now().Add(20 * time.Second)
	for {
		status, h, text, err := call(t, e, http.MethodPost, nil, strings.NewReader("SELECT 1"), nil)
		must(t, err)
		if status == 503 && h.Get("X-ClickHouse-Exception-Code") == "202" && h.Get("Retry-After") != "" && strings.Contains(text, "saturated") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("never saturated: %d %s", status, text)
		}
	}
	cancel()
	if err := <-slow; !errors.Is(err, context.Canceled) {
		t.Fatalf("slow statement: %v", err)
	}
	// Disconnecting cancels the statement in the engine, which frees the slot long before the statement's own end.
	for {
		status, _, text, err := call(t, e, http.MethodPost, nil, strings.NewReader("SELECT 1"), nil)
		must(t, err)
		if status == 200 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the slot was never freed: %d %s", status, text)
		}
	}
}
