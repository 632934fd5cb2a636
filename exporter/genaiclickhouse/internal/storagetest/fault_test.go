package storagetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/exporter/debugexporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"driftline/exporter/genaiclickhouse"
	"driftline/internal/engine/enginetest"
	"driftline/internal/rows"
	"driftline/schema"
)

// withQueue turns the default queue and endless retries on, quick enough for a test.
func withQueue(c *genaiclickhouse.Config) {
	defaults := genaiclickhouse.NewFactory().CreateDefaultConfig().(*genaiclickhouse.Config)
	queue := *defaults.QueueConfig.Get()
	batch := *queue.Batch.Get()
	batch.FlushTimeout = 100 * time.Millisecond
	queue.Batch = configoptional.Some(batch)
	c.QueueConfig = configoptional.Some[exporterhelper.QueueBatchConfig](queue)
	c.RetryConfig = defaults.RetryConfig
	c.RetryConfig.InitialInterval = 50 * time.Millisecond
	c.RetryConfig.MaxInterval = 200 * time.Millisecond
}

// TestALostAcknowledgementDoublesNothing cuts the connection after the engine has stored a
// batch and before its answer arrives, at every table in turn.
func TestALostAcknowledgementDoublesNothing(t *testing.T) {
	r := newRig(t)
	p, base := newProxy(t, enginetest.Shared(t).URL(t))
	exp := r.newExporter(base, componenttest.NewNopHost())
	rng := newSeed(t)
	var list []rows.Row
	for _, table := range rows.Tables {
		for range 10 {
			list = append(list, randomRow(rng, table))
		}
	}
	td := traces(list...)
	lost := 0
	for table := range 6 {
		p.countdown.Store(int64(table) + 1)
		err := exp.ConsumeTraces(ctx, td)
		require.Error(t, err, "the answer was lost")
		require.False(t, consumererror.IsPermanent(err), "%v", err)
		lost++
	}
	require.NoError(t, exp.ConsumeTraces(ctx, td))
	for _, table := range rows.Tables {
		require.EqualValues(t, 10, r.count("SELECT count() FROM {db}."+string(table)), table)
		require.EqualValues(t, 10, r.count("SELECT count() FROM {db}."+string(table)+"_base"), "%s: the token keeps copies out", table)
	}
	require.EqualValues(t, lost, r.where("insert_errors", "class=retryable", "code=0", "error=NO_ANSWER"))
	r.requireLedger()
}

// C56: data that comes before the tables is stored once they are there, and once only.
func TestC56DataBeforeTheSchemaWaits(t *testing.T) {
	r := newBareRig(t, withQueue)
	rng := newSeed(t)
	for range 100 {
		require.NoError(t, r.exp.ConsumeTraces(ctx, traces(randomRow(rng, rows.TableOperations))))
	}
	require.Eventually(t, func() bool { return r.sums("spans_refused")["retryable"] > 0 }, 30*time.Second, 10*time.Millisecond, "a try before the schema is refused")
	require.NoError(t, schema.Up(ctx, r.conn, schema.Options{Database: r.db}, nil))
	require.Eventually(t, func() bool { return r.count("SELECT count() FROM {db}.operations_base") >= 100 }, 30*time.Second, 20*time.Millisecond)
	require.NoError(t, r.exp.Shutdown(ctx))
	require.EqualValues(t, 100, r.count("SELECT count() FROM {db}.operations_base"))
	r.requireLedger()
}

// C57: the exporter starts while ClickHouse is down, takes data at once and drains later.
func TestC57StartsWhileClickHouseIsDownAndDrains(t *testing.T) {
	e := enginetest.Start(t)
	r := newRigOn(t, e.Conn(t), "driftline")
	require.NoError(t, schema.Up(ctx, r.conn, schema.Options{Database: r.db}, nil))
	e.Kill9(t)

	host := &statusHost{}
	exp := r.newExporter(e.URL(t), host, withQueue)
	rng := newSeed(t)
	// The debug exporter of the same pipeline gets everything at once, since this one does not
	// block. It merges what it is given into batches, says so, and so gets a copy from the
	// collector.
	require.True(t, exp.Capabilities().MutatesData)
	core, logged := observer.New(zap.InfoLevel)
	factory := debugexporter.NewFactory()
	settings := exportertest.NewNopSettings(factory.Type())
	settings.Logger = zap.New(core)
	other, err := factory.CreateTraces(ctx, settings, factory.CreateDefaultConfig())
	require.NoError(t, err)
	require.NoError(t, other.Start(ctx, componenttest.NewNopHost()))
	printed := func() (n int64) {
		for _, entry := range logged.FilterMessage("Traces").All() {
			n += entry.ContextMap()["spans"].(int64)
		}
		return n
	}
	begin := time.Now()
	for range 500 {
		td := traces(randomRow(rng, rows.TableOperations))
		copied := ptrace.NewTraces()
		td.CopyTo(copied)
		require.NoError(t, exp.ConsumeTraces(ctx, copied), "the queue takes data while ClickHouse is down")
		require.NoError(t, other.ConsumeTraces(ctx, td))
	}
	require.Less(t, time.Since(begin), 10*time.Second)
	require.Eventually(t, func() bool { return printed() == 500 }, 10*time.Second, time.Millisecond, "all of it while ClickHouse is down")
	require.NoError(t, other.Shutdown(ctx))
	require.Eventually(t, func() bool { return host.last() == componentstatus.StatusRecoverableError }, 30*time.Second, 10*time.Millisecond)
	e.Restart(t)
	require.Eventually(t, func() bool { return total(r.sums("rows_written")) >= 1000 }, 60*time.Second, 20*time.Millisecond)
	require.Equal(t, componentstatus.StatusOK, host.last())
	require.NoError(t, exp.Shutdown(ctx))
	require.EqualValues(t, 500, r.count("SELECT count() FROM {db}.operations_base"))
	r.requireLedger()
}

func TestShutdownLeavesNothingBehind(t *testing.T) {
	r := newRig(t)
	r.count("SELECT toUInt64(1)") // the test's own connection is no leak
	before := goleak.IgnoreCurrent()
	exp := r.newExporter(enginetest.Shared(t).URL(t), componenttest.NewNopHost(), withQueue)
	require.NoError(t, exp.ConsumeTraces(ctx, traces(randomRow(newSeed(t), rows.TableRequests))))
	require.NoError(t, exp.Shutdown(ctx))
	require.EqualValues(t, 1, r.count("SELECT count() FROM {db}.requests"), "shutdown drains the queue")
	require.NoError(t, r.exp.Shutdown(ctx))
	goleak.VerifyNone(t, before)
}

func TestANewerSchemaIsRefusedAndDataIsKept(t *testing.T) {
	r := newRig(t)
	r.spoiled = true
	require.NoError(t, r.conn.Exec(ctx, "INSERT INTO "+r.db+".schema_migrations (version, step, name, checksum, applied_by) VALUES (?, 1, 'later', 'x', '')", uint32(schema.Version+1)))
	host := &statusHost{}
	exp := r.newExporter(enginetest.Shared(t).URL(t), host)
	err := exp.ConsumeTraces(ctx, traces(randomRow(newSeed(t), rows.TableSegments)))
	require.ErrorIs(t, err, schema.ErrNewer)
	require.False(t, consumererror.IsPermanent(err), "the data must be kept")
	require.Equal(t, componentstatus.StatusPermanentError, host.last())
	require.Zero(t, r.count("SELECT count() FROM {db}.segments"))
}

func TestWithoutDataTheSchemaIsLookedAtInIntervals(t *testing.T) {
	r := newBareRig(t)
	host := &statusHost{}
	r.newExporter(enginetest.Shared(t).URL(t), host)
	require.Equal(t, componentstatus.StatusNone, host.last())
	r.clk.Advance(5 * time.Second)
	require.Equal(t, componentstatus.StatusRecoverableError, host.last())
	require.NoError(t, schema.Up(ctx, r.conn, schema.Options{Database: r.db}, nil))
	r.clk.Advance(5 * time.Second)
	require.Equal(t, componentstatus.StatusOK, host.last())
}

func TestADroppedTableIsWaitedForAgain(t *testing.T) {
	r := newRig(t)
	r.spoiled = true
	rng := newSeed(t)
	require.NoError(t, r.exp.ConsumeTraces(ctx, traces(randomRow(rng, rows.TableAttempts))))
	require.NoError(t, r.conn.Exec(ctx, "DROP TABLE "+r.db+".attempts_base SYNC"))
	require.NoError(t, r.conn.Exec(ctx, "DROP TABLE "+r.db+".schema_migrations SYNC"))
	td := traces(randomRow(rng, rows.TableAttempts))
	require.ErrorContains(t, r.exp.ConsumeTraces(ctx, td), "code 60")
	require.ErrorIs(t, r.exp.ConsumeTraces(ctx, td), schema.ErrNotMigrated)
	require.NoError(t, schema.Up(ctx, r.conn, schema.Options{Database: r.db}, nil))
	require.NoError(t, r.exp.ConsumeTraces(ctx, td))
	require.EqualValues(t, 1, r.count("SELECT count() FROM {db}.attempts"))
	r.requireLedger()
}

func TestACancelledTryIsRetryable(t *testing.T) {
	r := newRig(t)
	td := traces(randomRow(newSeed(t), rows.TableAttempts))
	require.NoError(t, r.exp.ConsumeTraces(ctx, traces()))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	err := r.exp.ConsumeTraces(ended, td)
	require.Error(t, err)
	require.False(t, consumererror.IsPermanent(err))
	require.NoError(t, r.exp.ConsumeTraces(ctx, td))
	r.requireLedger()
}

// statusHost keeps the last status that a component reported.
type statusHost struct {
	mu     sync.Mutex
	status componentstatus.Status
}

func (*statusHost) GetExtensions() map[component.ID]component.Component { return nil }

func (h *statusHost) Report(e *componentstatus.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status = e.Status()
}

func (h *statusHost) last() componentstatus.Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status
}
