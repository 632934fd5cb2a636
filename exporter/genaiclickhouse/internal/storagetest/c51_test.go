package storagetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"

	"driftline/exporter/genaiclickhouse"
	"driftline/internal/engine/enginetest"
	"driftline/internal/rows"
)

// C51: at low traffic, with the default settings, a table gets at most one INSERT a second,
// and each makes at most one part per day that its rows lie on. The exporter's own package
// runs the case's five minutes in compressed time.
func TestC51LowTrafficMakesFewInsertsAndParts(t *testing.T) {
	r := newRig(t)
	defaults := genaiclickhouse.NewFactory().CreateDefaultConfig().(*genaiclickhouse.Config)
	exp := r.newExporter(enginetest.Shared(t).URL(t), componenttest.NewNopHost(), func(c *genaiclickhouse.Config) {
		c.QueueConfig, c.RetryConfig = defaults.QueueConfig, defaults.RetryConfig
	})
	rng := newSeed(t)
	begin := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	const operations = 35
	for i := range operations {
		require.NoError(t, exp.ConsumeTraces(ctx, numbered(i, randomRow(rng, rows.TableOperations))))
		<-tick.C
	}
	require.NoError(t, exp.Shutdown(ctx))
	most := uint64(time.Since(begin)/time.Second) + 1
	require.Less(t, most, uint64(operations), "the machine is too slow to tell")
	require.LessOrEqual(t, r.inserts("operations"), most)
	require.LessOrEqual(t, r.inserts("spans"), most)
	require.EqualValues(t, operations, r.count("SELECT count() FROM {db}.operations"))
	for _, table := range []string{"operations", "spans"} {
		// A part's block numbers tell how many INSERTs are merged in it.
		parts := r.count("SELECT toUInt64(sum(max_block_number - min_block_number + 1)) FROM system.parts WHERE active AND database = '{db}' AND table = '" + table + "_base'")
		require.LessOrEqual(t, parts, 2*most, table)
	}
	r.requireLedger()
}
