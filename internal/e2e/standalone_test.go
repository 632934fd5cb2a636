package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"driftline/internal/chconn"
	"driftline/internal/engine"
)

// startTimeout is how long a program may take to be up on a busy machine.
const startTimeout = 60 * time.Second

// instance is a running `detectd standalone`.
type instance struct {
	*process
	data                 string
	otlp, ui, clickhouse string // base URLs
}

var endpointLine = regexp.MustCompile(`(?m)^  ClickHouse  (http://\S+)$`)

// startStandalone runs detectd standalone over a folder, on free ports.
func startStandalone(t *testing.T, data string, extra ...string) *instance {
	t.Helper()
	a := freeAddresses(t, 3)
	args := append([]string{"standalone", "--data", data, "--otlp-grpc", a[0], "--otlp-http", a[1], "--ui-listen", a[2]}, extra...)
	in := &instance{process: start(t, nil, detectd, args...), data: data, otlp: "http://" + a[1], ui: "http://" + a[2]}
	eventually(t, startTimeout, func() error {
		if !in.running() {
			t.Fatalf("detectd standalone ended: %s", in.stderr.String())
		}
		m := endpointLine.FindStringSubmatch(in.stdout.String())
		if m == nil {
			return fmt.Errorf("detectd standalone is not up")
		}
		password, err := os.ReadFile(filepath.Join(data, engine.PasswordFile))
		if err != nil {
			return err
		}
		in.clickhouse = strings.Replace(m[1], "://", "://default:"+strings.TrimSpace(string(password))+"@", 1)
		return nil
	})
	return in
}

// enginePID reads the engine's process id from the lock in the data folder; 0 while there is none.
func (in *instance) enginePID() int {
	raw, err := os.ReadFile(filepath.Join(in.data, "engine", "driftline-engine.lock"))
	if err != nil {
		return 0
	}
	var holder struct{ PID int }
	if json.Unmarshal(raw, &holder) != nil {
		return 0
	}
	return holder.PID
}

// connect opens a connection to the tables behind a ClickHouse endpoint.
func connect(t *testing.T, endpoint string) driver.Conn {
	t.Helper()
	target, err := chconn.Parse(endpoint+"/driftline", "driftline")
	require.NoError(t, err)
	conn, err := target.OpenDatabase(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// scalar runs a query with one value as its result.
func scalar[T any](t *testing.T, conn driver.Conn, query string, args ...any) (v T) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), query, args...).Scan(&v), query)
	return v
}

// list runs a query with one column as its result.
func list[T any](t *testing.T, conn driver.Conn, query string, args ...any) []T {
	t.Helper()
	rows, err := conn.Query(t.Context(), query, args...)
	require.NoError(t, err, query)
	defer rows.Close()
	var out []T
	for rows.Next() {
		var v T
		require.NoError(t, rows.Scan(&v))
		out = append(out, v)
	}
	require.NoError(t, rows.Err())
	return out
}

// sendSpans posts spans as OTLP/HTTP; nil means that the receiver has taken them.
func sendSpans(ctx context.Context, otlp string, td ptrace.Traces) error {
	body, err := ptraceotlp.NewExportRequestFromTraces(td).MarshalProto()
	if err != nil {
		return err
	}
	code, answer, err := post(ctx, otlp+"/v1/traces", "application/x-protobuf", body)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("OTLP receiver answered %d: %s", code, answer)
	}
	return err
}

func post(ctx context.Context, url, contentType string, body []byte) (code int, answer string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", contentType)
	return do(req)
}

func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	code, body, err = do(req)
	if err != nil {
		return 0, err.Error()
	}
	return code, body
}

func do(req *http.Request) (code int, body string, err error) {
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

// dump returns every base table as JSON lines, by name.
func dump(t *testing.T, conn driver.Conn, endpoint string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, table := range list[string](t, conn, "SELECT name FROM system.tables WHERE database = 'driftline' AND engine LIKE '%MergeTree' ORDER BY name") {
		code, body, err := post(t.Context(), endpoint+"/", "text/plain", []byte("SELECT * FROM driftline."+table+" FORMAT JSONEachRow"))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, code, body)
		out[table] = strings.TrimSpace(body)
	}
	return out
}
