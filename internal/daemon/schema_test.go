package daemon

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector"
	"driftline/internal/chconn"
	"driftline/internal/clock"
	"driftline/internal/engine/enginetest"
	"driftline/schema"
)

func TestReadyzShowsATableThatWasDropped(t *testing.T) {
	e := enginetest.Shared(t)
	ctx, conn, db := context.Background(), e.Conn(t), e.Database(t)
	require.NoError(t, schema.Up(ctx, conn, schema.Options{Database: db}, nil))
	target, err := chconn.Parse(e.DSNFor(db), db)
	require.NoError(t, err)
	var log strings.Builder
	clk := clock.NewManual(time.Now())
	d, err := New(ctx, Options{
		Target: target, Schema: schema.Options{Database: db}, UIListen: "127.0.0.1:0",
		Detector: detector.DefaultConfig(), Clock: clk, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	require.NoError(t, err)
	defer d.Close(ctx)
	d.Serve()
	stop := d.schema.run(ctx, clk)
	defer stop()
	_, err = d.Engine.Evaluate(ctx, clk.Now())
	require.NoError(t, err)
	code, body := readyz(t, d)
	require.Equal(t, http.StatusOK, code, body)

	require.NoError(t, conn.Exec(ctx, "DROP TABLE "+db+".attempts_base SYNC"))
	clk.Advance(schemaInterval)
	code, body = readyz(t, d)
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, body, "schema object missing: database "+db+": attempts_base; run `detectd migrate up`")
	require.Contains(t, log.String(), "attempts_base")

	require.NoError(t, schema.Up(ctx, conn, schema.Options{Database: db}, nil))
	clk.Advance(schemaInterval)
	code, body = readyz(t, d)
	require.Equal(t, http.StatusOK, code, body)
	require.Contains(t, log.String(), "right again")
}

func TestADaemonWaitsForTheUpgradeOfAnOlderSchema(t *testing.T) {
	e := enginetest.Shared(t)
	ctx, conn, db := context.Background(), e.Conn(t), e.Database(t)
	require.NoError(t, schema.Up(ctx, conn, schema.Options{Database: db}, nil))
	require.NoError(t, conn.Exec(ctx, "ALTER TABLE "+db+".schema_migrations DELETE WHERE version > 1 SETTINGS mutations_sync = 2"))
	target, err := chconn.Parse(e.DSNFor(db), db)
	require.NoError(t, err)
	logged := make(chan string, 10)
	clk := clock.NewManual(time.Now())
	done := make(chan error, 1)
	go func() {
		d, err := New(ctx, Options{
			Target: target, Schema: schema.Options{Database: db}, UIListen: "127.0.0.1:0",
			Detector: detector.DefaultConfig(), Clock: clk, Logger: slog.New(slog.NewTextHandler(lines(logged), nil)),
		})
		if err == nil {
			d.Close(ctx)
		}
		done <- err
	}()
	select {
	case text := <-logged:
		require.Contains(t, text, "waiting for the migration")
		require.Contains(t, text, "detectd migrate up")
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	}
	require.NoError(t, schema.Up(ctx, conn, schema.Options{Database: db}, nil))
	require.Eventually(t, func() bool {
		clk.Advance(schema.WaitInterval)
		select {
		case err := <-done:
			require.NoError(t, err)
			return true
		default:
			return false
		}
	}, 60*time.Second, 10*time.Millisecond)
}

// A server that nobody migrated, or that is of another version, is found when it answers.
func TestADaemonStartsWhileClickHouseIsDownAndAlerts(t *testing.T) {
	e := enginetest.Start(t)
	ctx, conn, db := context.Background(), e.Conn(t), e.Database(t)
	target, err := chconn.Parse(e.DSNFor(db), db)
	require.NoError(t, err)
	e.Kill9(t)
	var log strings.Builder
	clk := clock.NewManual(time.Now().Truncate(time.Minute))
	told := &heard{}
	d, err := New(ctx, Options{
		Target: target, Schema: schema.Options{Database: db}, UIListen: "127.0.0.1:0", Notifiers: []detector.Notifier{told},
		Detector: detector.DefaultConfig(), Clock: clk, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	require.NoError(t, err)
	defer d.Close(ctx)
	d.Serve()
	require.Contains(t, log.String(), "waiting for ClickHouse")
	round := func() error {
		clk.Advance(time.Minute)
		_, err := d.Engine.Evaluate(ctx, clk.Now())
		return err
	}
	code, body := readyz(t, d)
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, body, "does not answer")
	page, err := http.Get(d.URL + "/")
	require.NoError(t, err)
	require.NoError(t, page.Body.Close(), "the UI answers meanwhile")
	for range 12 {
		require.ErrorContains(t, round(), "does not answer")
	}
	require.Equal(t, []string{"firing pipeline_health"}, told.what)

	e.Restart(t)
	require.ErrorContains(t, round(), "detectd migrate up", "no table is there yet")
	require.NoError(t, schema.Up(ctx, conn, schema.Options{Database: db}, nil))
	require.NoError(t, round())
	code, body = readyz(t, d)
	require.Equal(t, http.StatusOK, code, body)
	for range 5 {
		require.NoError(t, round())
	}
	require.Equal(t, []string{"firing pipeline_health", "resolved pipeline_health"}, told.what)
}

// heard is a receiver that writes down what it is told.
type heard struct{ what []string }

func (h *heard) Name() string { return "heard" }

func (h *heard) Notify(_ context.Context, alerts []detector.Alert) error {
	for _, n := range alerts {
		if !n.Resend {
			h.what = append(h.what, n.State+" "+n.Detection)
		}
	}
	return nil
}

func readyz(t *testing.T, d *Daemon) (int, string) {
	t.Helper()
	answer, err := http.Get(d.URL + "/readyz")
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(body)
}

// lines is a writer that hands on what it is given.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}
