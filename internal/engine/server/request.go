package server

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/andybalholm/brotli"
	"github.com/google/uuid"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"driftline/internal/chdb"
)

const (
	// headBytes is how much of a body is read before it is known whether it is an insert with data.
	headBytes = 64 << 10
	// maxQueryBytes bounds a statement that is not an insert with data.
	maxQueryBytes = 16 << 20
)

// request is what a client asked for, taken apart but not yet judged by the engine.
type request struct {
	queryID  string
	database string
	settings []setting
	params   []chdb.Param
	readonly bool

	statement statement
	// data are the rows of an insert; nil for other statements. It may be a [frameReader], which hands out whole frames.
	data io.Reader
	// release, if not nil, gives back what reading the body took; it is called when nothing reads data any more.
	release func()

	format         string
	nativeRevision uint64
	compress       bool
	method         compress.Method
	encoding       string
	waitEnd        bool
	userComment    string
}

type setting struct{ name, value string }

// notSettings are URL parameters of the HTTP interface itself.
var notSettings = map[string]bool{
	"query": true, "database": true, "default_format": true, "query_id": true, "user": true, "password": true,
	"compress": true, "decompress": true, "client_protocol_version": true, "wait_end_of_query": true, "buffer_size": true,
	"quota_key": true, "session_timeout": true, "session_check": true, "stacktrace": true, "close_session": true,
}

// parse reads the request up to the start of an insert's data. Its errors are exceptions in the engine's form.
func parse(r *http.Request) (*request, error) {
	q := r.URL.Query()
	req := &request{
		queryID:  first(q.Get("query_id"), r.Header.Get("X-ClickHouse-Query-Id")),
		database: first(q.Get("database"), r.Header.Get("X-ClickHouse-Database")),
		readonly: r.Method == http.MethodGet || r.Method == http.MethodHead,
		compress: truthy(q.Get("compress")),
		method:   compress.LZ4,
		waitEnd:  truthy(q.Get("wait_end_of_query")),
	}
	if req.queryID == "" {
		req.queryID = uuid.NewString()
	}
	if err := refuseUnsupported(r, q); err != nil {
		return nil, err
	}
	if v := q.Get("client_protocol_version"); v != "" {
		n, err := strconv.ParseUint(v, 10, 32)
		if err != nil {
			return nil, badArgument("client_protocol_version must be a number, it is %q", v)
		}
		req.nativeRevision = n
	}
	if err := req.parseSettings(q); err != nil {
		return nil, err
	}
	if err := req.readStatement(r, q); err != nil {
		return nil, err
	}
	req.format = first(req.statement.format, r.Header.Get("X-ClickHouse-Format"), q.Get("default_format"))
	if req.format == "" {
		req.format = "TabSeparated"
		if req.data != nil {
			req.format = "Values"
		}
	}
	return req, nil
}

func refuseUnsupported(r *http.Request, q url.Values) error {
	switch {
	case q.Get("session_id") != "" || r.Header.Get("X-ClickHouse-Session-Id") != "":
		return refuse("there are no sessions (session_id): give the database and settings as URL parameters of each request")
	case q.Get("role") != "":
		return refuse("there are no roles (role): leave the parameter out")
	case strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/"):
		return refuse("external tables (multipart bodies) are not supported: insert the rows into a table, or pass them as an Array parameter")
	}
	return nil
}

func (req *request) parseSettings(q url.Values) error {
	for name, values := range q {
		value := values[len(values)-1]
		switch {
		case notSettings[name]:
		case strings.HasPrefix(name, "param_"):
			req.params = append(req.params, chdb.Param{Name: strings.TrimPrefix(name, "param_"), Value: value})
		case name == "network_compression_method":
			switch strings.ToUpper(value) {
			case "LZ4":
				req.method = compress.LZ4
			case "LZ4HC":
				req.method = compress.LZ4HC
			case "ZSTD":
				req.method = compress.ZSTD
			case "NONE":
				req.method = compress.None
			default:
				return badArgument("network_compression_method must be LZ4, LZ4HC, ZSTD or NONE, it is %q", value)
			}
		case name == "network_zstd_compression_level" || name == "enable_http_compression" || name == "http_zlib_compression_level":
			// Bear on the transport only; enable_http_compression is looked at where the reply's encoding is chosen.
		case name == "log_comment":
			req.userComment = value
		case !settingName(name):
			return badArgument("%q is neither a parameter of the HTTP interface nor a setting's name", name)
		default:
			req.settings = append(req.settings, setting{name, value})
		}
	}
	return nil
}

func settingName(s string) bool {
	for i := range len(s) {
		if !isWordPart(s[i]) || s[i] >= 0x80 || i == 0 && !isWordStart(s[i]) {
			return false
		}
	}
	return s != ""
}

// readStatement joins the query parameter and the body as ClickHouse does, and finds out where an insert's data begins.
func (req *request) readStatement(r *http.Request, q url.Values) error {
	body, err := requestBody(r, truthy(q.Get("decompress")))
	if err != nil {
		return err
	}
	if frames, ok := body.(*frameReader); ok {
		req.release = frames.release
	}
	text := q.Get("query")
	if text != "" {
		text += "\n"
		// The usual insert has its whole statement there, and a body of nothing but data, which then need not pass through here.
		if st := analyse([]byte(text)); st.dataClause {
			req.statement, req.data = st, body
			if rest := text[st.dataOffset:]; rest != "" {
				req.data = io.MultiReader(strings.NewReader(rest), body)
			}
			return req.refuseStatement()
		}
	}
	source := bufio.NewReaderSize(io.MultiReader(strings.NewReader(text), body), max(headBytes, len(text)+16))
	head, err := source.Peek(max(headBytes, len(text)))
	if err != nil && !errors.Is(err, io.EOF) {
		return bodyError(err)
	}
	st := analyse(head)
	if !st.dataClause {
		// Not decided by the head alone: the whole statement is needed.
		whole, err := io.ReadAll(io.LimitReader(source, maxQueryBytes+1))
		if err != nil {
			return bodyError(err)
		}
		if len(whole) > maxQueryBytes {
			return &chdb.Error{Code: codeTooManyBytes, Name: "TOO_MANY_BYTES", Message: fmt.Sprintf("The statement is longer than %d bytes; send rows as an INSERT with FORMAT", maxQueryBytes)}
		}
		st = analyse(whole)
		if st.insertData {
			source = bufio.NewReader(bytes.NewReader(whole))
		}
	}
	req.statement = st
	if st.insertData {
		if _, err := source.Discard(st.dataOffset); err != nil {
			return bodyError(err)
		}
		req.data = source
	}
	return req.refuseStatement()
}

// refuseStatement turns away what the engine would accept but must not do here.
func (req *request) refuseStatement() error {
	st := &req.statement
	outside := reachesOutside(st.sql)
	if outside == "" && parameterNamesFile(st.sql, req.params) {
		outside = "a file's name as a table"
	}
	switch {
	case outside != "":
		return refuse(outside + " would reach outside the engine's folder, with the engine's rights: read files and other servers with a client of your own, and INSERT what it read")
	case strings.TrimSpace(st.sql) == "":
		return &chdb.Error{Code: codeSyntaxError, Name: "SYNTAX_ERROR", Message: "Empty query: give it as ?query= or as the body"}
	case st.outfile:
		return refuse("INTO OUTFILE would write on the server: redirect the reply into a file instead")
	case st.infile:
		return refuse("FROM INFILE would read on the server: send the file as the body of an INSERT with FORMAT")
	case st.inputSelect:
		return refuse("INSERT ... SELECT with data (input()) is not supported: insert the rows into a table and select from it")
	case st.keyword == "SYSTEM" && (st.second == "SHUTDOWN" || st.second == "KILL" || st.second == "SUSPEND"):
		return refuse("SYSTEM " + st.second + " is not supported: stop the engine process instead")
	case accessStatement(st):
		return refuse("there are no users, roles, quotas, row policies, settings profiles and grants: the endpoint has one user, whose password is in DRIFTLINE_ENGINE_PASSWORD")
	case (st.keyword == "CREATE" || st.keyword == "ATTACH") && st.second == "TEMPORARY":
		return refuse("there are no temporary tables, which would end with this request: use a table of ENGINE = Memory and drop it")
	case (st.keyword == "BACKUP" || st.keyword == "RESTORE") && st.second != "":
		return refuse("there is no BACKUP and RESTORE: stop the engine and copy its data folder, or read tables out with SELECT ... FORMAT Native")
	case onCluster(st):
		return refuse("there are no clusters (ON CLUSTER): leave the clause out, or use a ClickHouse server")
	case st.keyword == "BEGIN" || st.keyword == "COMMIT" || st.keyword == "ROLLBACK":
		return refuse("there are no transactions across requests")
	}
	return nil
}

// accessStatement is true for statements about users and their rights.
func accessStatement(st *statement) bool {
	switch st.keyword {
	case "GRANT", "REVOKE":
		return true
	case "CREATE", "ALTER", "DROP", "MOVE":
		switch st.second {
		case "USER", "ROLE", "QUOTA", "ROW", "POLICY", "PROFILE":
			return true
		case "SETTINGS":
			return true // SETTINGS PROFILE
		}
	case "SET":
		return st.second == "ROLE" || st.second == "DEFAULT"
	}
	return false
}

// onCluster is true for statements that are to run on a cluster's servers.
func onCluster(st *statement) bool {
	switch st.keyword {
	case "CREATE", "ALTER", "DROP", "TRUNCATE", "RENAME", "OPTIMIZE", "ATTACH", "DETACH", "SYSTEM", "EXCHANGE", "UNDROP", "KILL", "DELETE", "UPDATE":
	default:
		return false
	}
	l := &lexer{text: []byte(st.sql)}
	previous := ""
	for {
		t := l.next()
		if t.kind == tokenEnd {
			return false
		}
		word := l.word(t)
		if previous == "ON" && word == "CLUSTER" && t.depth == 0 {
			return true
		}
		previous = word
	}
}

// requestBody undoes the transport's encodings.
func requestBody(r *http.Request, decompress bool) (io.Reader, error) {
	var body io.Reader = r.Body
	var err error
	switch enc := strings.ToLower(r.Header.Get("Content-Encoding")); enc {
	case "", "identity":
	case "gzip", "x-gzip":
		body, err = gzip.NewReader(r.Body)
	case "deflate":
		body, err = zlib.NewReader(r.Body)
	case "zstd":
		var d *zstd.Decoder
		if d, err = zstd.NewReader(r.Body, zstd.WithDecoderConcurrency(1)); err == nil {
			body = d.IOReadCloser()
		}
	case "lz4":
		body = lz4.NewReader(r.Body)
	case "br":
		body = brotli.NewReader(r.Body)
	default:
		return nil, refuse(fmt.Sprintf("Content-Encoding %q is not supported: use gzip, deflate, zstd, lz4 or br", enc))
	}
	if err != nil {
		return nil, bodyError(err)
	}
	if decompress {
		return newFrameReader(body), nil
	}
	return body, nil
}

func bodyError(err error) error {
	var e *chdb.Error
	if errors.As(err, &e) {
		return e
	}
	return &chdb.Error{Code: codeCannotReadAllData, Name: "CANNOT_READ_ALL_DATA", Message: "The body ended early or is damaged: " + err.Error()}
}

func badArgument(format string, args ...any) error {
	return &chdb.Error{Code: codeBadArguments, Name: "BAD_ARGUMENTS", Message: fmt.Sprintf(format, args...)}
}

func truthy(v string) bool { return v == "1" || strings.EqualFold(v, "true") }

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
