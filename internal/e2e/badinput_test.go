package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	chproto "github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"
	"github.com/stretchr/testify/require"

	"driftline/internal/chdb"
)

// refused is a command that must fail, with what its error must say.
type refused struct {
	name string
	env  []string
	args []string
	code int
	says []string
}

func (c refused) check(t *testing.T) {
	t.Run(c.name, func(t *testing.T) {
		t.Parallel()
		code, stdout, stderr := run(t, c.env, detectd, c.args...)
		require.Equal(t, c.code, code, stderr)
		require.Empty(t, stdout)
		for _, phrase := range c.says {
			require.Contains(t, stderr, phrase)
		}
		require.NotContains(t, stderr, "goroutine ", "an error is a message, not a trace of the program")
		require.NotContains(t, stderr, "hunter2", "a password is never shown")
	})
}

func TestBadCommandLines(t *testing.T) {
	for _, c := range []refused{
		{name: "unknown command", args: []string{"serv"}, code: 2, says: []string{`unknown command "serv"`, "did you mean serve?", "detectd --help"}},
		{name: "unknown command below migrate", args: []string{"migrate", "upp"}, code: 2, says: []string{`unknown command "upp"`, "detectd migrate --help"}},
		{name: "unknown flag", args: []string{"standalone", "--port", "1"}, code: 2, says: []string{"unknown flag: --port", "detectd standalone --help"}},
		{name: "unknown scenario", args: []string{"demo", "--scenario", "nope", "--history", "1s"}, code: 2, says: []string{`--scenario "nope"`, "incident", "more-steps", "--history"}},
		{name: "all wrong flags of standalone", code: 2, args: []string{
			"standalone", "--data", "", "--alertmanager", "nope", "--webhook", "nope", "--log-level", "loud", "--log-format", "x", "--ttl-days", "foo=1,spans=x",
			"--otlp-grpc", "nonsense", "--otlp-http", "127.0.0.1:0", "--ui-listen", "bad", "--engine-listen", "bad",
		}, says: []string{
			"--data:", "--alertmanager:", "--webhook:", "--log-level", "--log-format", "ttl_days.foo", "--ttl-days spans=x",
			"--otlp-grpc", "--otlp-http", "--ui-listen", "--engine-listen",
		}},
		{name: "all wrong flags of serve", code: 2, args: []string{"serve", "--clickhouse", "ftp://u:hunter2@h", "--ui-listen", "bad", "--ttl-days", "spans=x"}, says: []string{
			`scheme "ftp"`, "want clickhouse, http or https", "--ui-listen", "--ttl-days spans=x",
		}},
		{name: "no DSN", args: []string{"migrate", "up"}, code: 2, says: []string{"no ClickHouse DSN", "--clickhouse", "DRIFTLINE_CLICKHOUSE_DSN"}},
		{name: "all wrong flags of engine", args: []string{"engine", "--listen", "0.0.0.0:1", "--max-queued", "-1"}, code: 2, says: []string{"--data-dir", "--listen", "--max-queued"}},
	} {
		c.check(t)
	}
}

func TestBadSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "detectd.yaml")
	require.NoError(t, os.WriteFile(file, []byte("fdr: 2\np95_surge: {ratio: 1}\n"), 0o600))
	says := []string{file, "fdr 2: want between 0 and 1", "p95_surge.ratio 1"}
	for _, c := range []refused{
		{name: "check", args: []string{"check", "--config", file}, code: 1, says: says},
		{name: "check without the file", args: []string{"check", "--config", file + "x"}, code: 1, says: []string{file + "x", "no such file"}},
		{name: "serve", args: []string{"serve", "--config", file, "--clickhouse", "http://127.0.0.1:1/x", "--ui-listen", "bad"}, code: 2, says: append(says, "--ui-listen")},
		{name: "standalone", args: []string{"standalone", "--config", file, "--data", ""}, code: 2, says: append(says, "--data")},
	} {
		c.check(t)
	}
	code, stdout, stderr := run(t, nil, detectd, "check")
	require.Equal(t, 0, code, stderr)
	require.Contains(t, stdout, "p95_surge:\n  min_operations: 50\n")
}

func TestBadSurroundings(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	cut := filepath.Join(dir, "libchdb.so")
	whole, err := os.Open(library)
	require.NoError(t, err)
	head, err := io.ReadAll(io.LimitReader(whole, 1<<20))
	require.NoError(t, err)
	require.NoError(t, whole.Close())
	require.NoError(t, os.WriteFile(cut, head, 0o600))

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	busy := taken.Addr().String()
	closed := freeAddresses(t, 1)[0]
	old := oldClickHouse(t)

	standalone := func(changes ...string) []string {
		a := freeAddresses(t, 4)
		return append([]string{"standalone", "--data", filepath.Join(dir, "data-"+strings.Join(changes, "")[2:6]+a[0][10:]), "--otlp-grpc", a[0], "--otlp-http", a[1],
			"--ui-listen", a[2]}, changes...)
	}
	mend := "make libchdb"
	for _, c := range []refused{
		{name: "folder below a file", args: standalone("--data", file+"/x"), code: 1, says: []string{"data folder", "not a directory", "give --data a folder"}},
		{name: "folder that cannot be made", args: standalone("--data", "/proc/driftline"), code: 1, says: []string{"data folder", "/proc/driftline", "give --data a folder"}},
		{name: "library missing, standalone", args: standalone("--libchdb", dir+"/none.so"), code: 1, says: []string{"none.so: no such file", mend}},
		{name: "library missing, demo", env: []string{chdb.EnvLibrary + "=" + dir + "/none.so"}, args: []string{"demo", "--headless"}, code: 1, says: []string{"none.so: no such file", mend}},
		{name: "library cut short, standalone", args: standalone("--libchdb", cut), code: 1, says: []string{"truncated", mend}},
		{name: "library cut short, demo", args: []string{"demo", "--headless", "--libchdb", cut}, code: 1, says: []string{"truncated", mend}},
		{name: "OTLP gRPC port in use", args: standalone("--otlp-grpc", busy), code: 1, says: []string{busy, "address already in use", "--otlp-grpc"}},
		{name: "OTLP HTTP port in use", args: standalone("--otlp-http", busy), code: 1, says: []string{busy, "address already in use", "--otlp-http"}},
		{name: "UI port in use", args: standalone("--ui-listen", busy), code: 1, says: []string{busy, "address already in use", "--ui-listen"}},
		{name: "engine port in use", args: standalone("--engine-listen", busy), code: 1, says: []string{busy, "port is in use", "another --engine-listen address"}},
		{name: "ClickHouse away, migrate", env: []string{"DRIFTLINE_CLICKHOUSE_DSN=clickhouse://u:hunter2@" + closed}, args: []string{"migrate", "up"}, code: 1, says: []string{closed + " does not answer", "port fits the scheme"}},
		{name: "ClickHouse too old, serve", args: []string{"serve", "--clickhouse", old, "--ui-listen", "127.0.0.1:0"}, code: 1, says: []string{"server too old", "21.8", "24.8 or newer", "upgrade the server"}},
		{name: "ClickHouse too old, migrate", args: []string{"migrate", "up", "--clickhouse", old}, code: 1, says: []string{"server too old", "21.8", "24.8 or newer", "upgrade the server"}},
	} {
		c.check(t)
	}
}

// oldClickHouse answers like a server that calls itself a release of 2021.
func oldClickHouse(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query, _ := io.ReadAll(r.Body)
		block := proto.Block{}
		add := func(name, kind string, value any) {
			if err := block.AddColumn(name, column.Type(kind)); err != nil {
				t.Error(err)
			}
			if err := block.Columns[len(block.Columns)-1].AppendRow(value); err != nil {
				t.Error(err)
			}
		}
		switch {
		case bytes.Contains(query, []byte("displayName()")):
			add("displayName()", "String", "old")
			add("version()", "String", "21.8.15.7")
			add("revision()", "UInt32", uint32(54460))
			add("timezone()", "String", "UTC")
		case bytes.Contains(query, []byte("version()")):
			add("version()", "String", "21.8.15.7")
		default:
			add("1", "UInt8", uint8(1))
		}
		var b chproto.Buffer
		revision := uint64(0)
		_, _ = fmt.Sscan(r.URL.Query().Get("client_protocol_version"), &revision)
		if err := block.Encode(&b, revision); err != nil {
			t.Error(err)
		}
		_, _ = w.Write(b.Buf)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// Two detectd on one folder, and senders that do not speak OTLP: the first goes on.
func TestARunningInstanceKeepsItsFolderAndItsIntake(t *testing.T) {
	t.Parallel()
	in := startStandalone(t, t.TempDir())
	a := freeAddresses(t, 4)
	code, _, stderr := run(t, nil, detectd, "standalone", "--data", in.data, "--otlp-grpc", a[0], "--otlp-http", a[1], "--ui-listen", a[2])
	require.Equal(t, 1, code)
	for _, phrase := range []string{"data folder", "in use by process", fmt.Sprint(in.enginePID()), "stop it", "another --data"} {
		require.Contains(t, stderr, phrase)
	}

	for _, c := range []struct {
		contentType, body string
		code              int
	}{
		{"application/json", "not OTLP", http.StatusBadRequest},
		{"application/json", `{"resourceSpans": 3}`, http.StatusBadRequest},
		{"application/x-protobuf", "not OTLP", http.StatusBadRequest},
		{"text/plain", "not OTLP", http.StatusUnsupportedMediaType},
		// The collector's receiver quotes what it cannot read, and cannot write a quote that is no text.
		{"application/json", "\xff\xfe", http.StatusInternalServerError},
		{"application/json", "{\"resourceSpans\": 3, \"x\": \"\xff\"}", http.StatusInternalServerError},
	} {
		code, answer, err := post(t.Context(), in.otlp+"/v1/traces", c.contentType, []byte(c.body))
		require.NoError(t, err)
		require.Equal(t, c.code, code, answer)
		require.NotEmpty(t, answer)
	}
	td := contentSpans()
	require.NoError(t, sendSpans(t.Context(), in.otlp, td))
	conn := connect(t, in.clickhouse)
	eventually(t, stored, func() error { return want(t, conn, 1, "SELECT count() FROM requests") })
	in.stop(t)
}

func TestBadCollectorConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`
receivers: {otlp: {protocols: {grpc: {endpoint: "127.0.0.1:0"}}}}
processors: {genaisegment: {linger: 0s, max_spans: -1}}
exporters: {genaiclickhouse: {endpoint: "ftp://h", compression: brotli, store_spans: some, timeout: 0s, span_attributes: [gen_ai.prompt]}}
service: {pipelines: {traces: {receivers: [otlp], processors: [genaisegment], exporters: [genaiclickhouse]}}}
`), 0o600))
	code, _, stderr := run(t, nil, collector, "--config", path)
	require.Equal(t, 1, code)
	for _, phrase := range []string{
		"processors::genaisegment", "'linger'", "'max_spans'",
		"exporters::genaiclickhouse", "ftp", "compression:", "store_spans:", "timeout:", "span_attributes[0]",
	} {
		require.Contains(t, stderr, phrase)
	}

	require.NoError(t, os.WriteFile(path, []byte(`
receivers: {otlp: {protocols: {grpc: {endpoint: "127.0.0.1:0"}}}}
processors: {genaisegment: {lingr: 1s, max_traces: -1, max_spans: many}}
exporters: {genaiclickhouse: {endpont: "http://127.0.0.1:8123", store_spans: some, sending_queue: {queue_size: 0}}}
service: {pipelines: {traces: {receivers: [otlp], processors: [genaisegment], exporters: [genaiclickhouse]}}}
`), 0o600))
	code, _, stderr = run(t, nil, collector, "--config", path)
	require.Equal(t, 1, code)
	for _, phrase := range []string{"lingr", "'max_traces'", "'max_spans'", "endpont", "store_spans:", "sending_queue"} {
		require.Contains(t, stderr, phrase, "keys and values are judged in one round")
	}
}
