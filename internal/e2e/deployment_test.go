package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/internal/chconn"
	"driftline/schema"
)

// startEngine runs `detectd engine` by hand and returns its endpoint.
func startEngine(t *testing.T, data string) string {
	t.Helper()
	p := start(t, nil, detectd, "engine", "--data-dir", data)
	var ready struct {
		Addr string
		OK   bool `json:"driftline_engine_ready"`
	}
	eventually(t, startTimeout, func() error {
		if !p.running() {
			t.Fatalf("detectd engine ended: %s", p.stderr.String())
		}
		line, _, found := strings.Cut(p.stdout.String(), "\n")
		if !found {
			return errors.New("the engine is not ready")
		}
		return json.Unmarshal([]byte(line), &ready)
	})
	require.True(t, ready.OK)
	return "http://" + ready.Addr
}

var uiLine = regexp.MustCompile(`(?m)^  UI          (http://\S+)$`)

// The other shape: a ClickHouse, a collector and detectd serve, each by itself.
func TestSeparateParts(t *testing.T) {
	t.Parallel()
	clickhouse := startEngine(t, t.TempDir())
	dsn := "DRIFTLINE_CLICKHOUSE_DSN=" + clickhouse + "/driftline"
	migrate := func(code int, args ...string) (stdout, stderr string) {
		t.Helper()
		got, stdout, stderr := run(t, []string{dsn}, detectd, append([]string{"migrate"}, args...)...)
		require.Equal(t, code, got, stderr)
		return stdout, stderr
	}

	// Before the migration each says so.
	_, stderr := migrate(1, "check")
	require.Contains(t, stderr, "schema not migrated")
	require.Contains(t, stderr, "detectd migrate up")
	code, _, stderr := run(t, []string{dsn}, detectd, "serve", "--ui-listen", "127.0.0.1:0")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "detectd migrate up")
	script, _ := migrate(0, "dry-run")
	require.Contains(t, script, "CREATE TABLE IF NOT EXISTS driftline.requests_base")

	// A collector that comes first waits with what it was sent.
	a := freeAddresses(t, 4)
	col := start(t, []string{
		"DRIFTLINE_CLICKHOUSE_ENDPOINT=" + clickhouse, "DRIFTLINE_OTLP_GRPC_ENDPOINT=" + a[0], "DRIFTLINE_OTLP_HTTP_ENDPOINT=" + a[1], "DRIFTLINE_HEALTH_ENDPOINT=" + a[2],
		"DRIFTLINE_METRICS_PORT=" + a[3][strings.LastIndex(a[3], ":")+1:], "DRIFTLINE_QUEUE_DIR=" + t.TempDir(),
	}, collector, "--config", filepath.Join(repository, "otelcol-config.yaml"))
	eventually(t, startTimeout, func() error {
		if code, body := get(t, "http://"+a[2]); code != http.StatusOK {
			return fmt.Errorf("health check of the collector: %d %s", code, body)
		}
		return nil
	})
	sent := newLedger()
	exports := simulated(t, 2*time.Minute, 60)
	sent.send(t, "http://"+a[1], exports[:len(exports)/2])
	eventually(t, 60*time.Second, func() error {
		if !strings.Contains(col.stderr.String(), "waiting for ClickHouse; data is kept in the queue") {
			return errors.New("the collector does not say that it waits")
		}
		return nil
	})
	require.Contains(t, col.stderr.String(), "detectd migrate up")

	stdout, _ := migrate(0, "up")
	require.Equal(t, fmt.Sprintf("schema of driftline is at version %d\n", schema.Version), stdout)
	migrate(0, "up")
	stdout, _ = migrate(0, "check")
	require.Equal(t, "ok\n", stdout)
	stdout, _ = migrate(0, "status", "--output", "json")
	var status struct {
		Current, Known, Applied int
		Pending                 []string
		Problem                 string
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &status))
	require.Equal(t, schema.Version, status.Current)
	require.Empty(t, status.Pending)
	require.Empty(t, status.Problem)
	stdout, _ = migrate(0, "status")
	require.Contains(t, stdout, "pending steps   0")
	script, _ = migrate(0, "dry-run")
	require.Equal(t, fmt.Sprintf("-- nothing to do: database driftline is at schema version %d\n", schema.Version), script)

	settings := filepath.Join(t.TempDir(), "detectd.yaml")
	require.NoError(t, os.WriteFile(settings, []byte("eval_delay: 20s\n"), 0o600))
	serve := start(t, []string{dsn}, detectd, "serve", "--ui-listen", "127.0.0.1:0", "--config", settings)
	var ui string
	eventually(t, startTimeout, func() error {
		m := uiLine.FindStringSubmatch(serve.stdout.String())
		if m == nil {
			return fmt.Errorf("detectd serve is not up: %s", serve.stderr.String())
		}
		ui = m[1]
		if code, body := get(t, ui+"/readyz"); code != http.StatusOK {
			return fmt.Errorf("/readyz: %d %s", code, body)
		}
		return nil
	})
	sent.send(t, "http://"+a[1], exports[len(exports)/2:])
	conn := connect(t, clickhouse)

	// The settings are read again on SIGHUP, and a file with mistakes changes nothing.
	for text, want := range map[string]string{
		"eval_delay: 25s\n": "the settings of detection were read again",
		"eval_dealy: 25s\n": "did you mean eval_delay?",
	} {
		require.NoError(t, os.WriteFile(settings, []byte(text), 0o600))
		serve.signal(syscall.SIGHUP)
		eventually(t, 60*time.Second, func() error {
			if !strings.Contains(serve.stderr.String(), want) {
				return fmt.Errorf("detectd serve does not say %q", want)
			}
			return nil
		})
	}
	eventually(t, 60*time.Second, func() error {
		for id, name := range sent.missing(t, conn) {
			if name != "POST" {
				return fmt.Errorf("span %s (%s) is missing", id, name)
			}
		}
		return sent.requests(t, conn)
	})
	code, body := get(t, ui+"/")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "driftline")
	for trace := range sent.roots {
		code, body = get(t, ui+"/traces/"+trace)
		require.Equal(t, http.StatusOK, code, body)
		require.Contains(t, body, trace)
		break
	}
	serve.stop(t)
	col.stop(t)

	t.Run("a newer schema is refused", func(t *testing.T) {
		newer := clickhouse + "/newer"
		code, _, stderr := run(t, nil, detectd, "migrate", "up", "--clickhouse", newer)
		require.Zero(t, code, stderr)
		target, err := chconn.Parse(newer, "newer")
		require.NoError(t, err)
		conn, err := target.Open(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.Exec(t.Context(), "INSERT INTO newer.schema_migrations (version, step, name, checksum, applied_by) VALUES (?, 1, 'later', 'x', 'test')", uint32(schema.Version+1)))
		for _, args := range [][]string{{"serve", "--ui-listen", "127.0.0.1:0"}, {"migrate", "up"}, {"migrate", "check"}, {"migrate", "dry-run"}} {
			code, _, stderr := run(t, nil, detectd, append(args, "--clickhouse", newer)...)
			require.Equal(t, 1, code, args)
			require.Contains(t, stderr, "schema newer than this binary")
			require.Contains(t, stderr, "upgrade this binary")
		}
		code, stdout, _ := run(t, nil, detectd, "migrate", "status", "--clickhouse", newer)
		require.Zero(t, code)
		require.Contains(t, stdout, "schema newer than this binary")

		a := freeAddresses(t, 4)
		col := start(t, []string{
			"DRIFTLINE_CLICKHOUSE_ENDPOINT=" + clickhouse, "DRIFTLINE_CLICKHOUSE_DATABASE=newer", "DRIFTLINE_OTLP_GRPC_ENDPOINT=" + a[0], "DRIFTLINE_OTLP_HTTP_ENDPOINT=" + a[1],
			"DRIFTLINE_HEALTH_ENDPOINT=" + a[2], "DRIFTLINE_METRICS_PORT=" + a[3][strings.LastIndex(a[3], ":")+1:], "DRIFTLINE_QUEUE_DIR=" + t.TempDir(),
		}, collector, "--config", filepath.Join(repository, "otelcol-config.yaml"))
		eventually(t, startTimeout, func() error {
			log := col.stderr.String()
			for _, phrase := range []string{"ClickHouse cannot be written to; data is kept in the queue", "schema newer than this binary", "upgrade this binary"} {
				if !strings.Contains(log, phrase) {
					return fmt.Errorf("the collector does not say %q", phrase)
				}
			}
			return nil
		})
		col.stop(t)
	})
}
