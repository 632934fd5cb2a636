package storagetest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"driftline/internal/rows"
	"driftline/schema"
)

// inserts is the number of acknowledged INSERTs into a table.
func (r *rig) inserts(table string) (n uint64) {
	m, err := r.tel.GetMetric("otelcol_exporter_genaiclickhouse_insert_duration")
	require.NoError(r.t, err)
	for _, p := range m.Data.(metricdata.Histogram[float64]).DataPoints {
		name, _ := p.Attributes.Value("table")
		outcome, _ := p.Attributes.Value("outcome")
		if name.AsString() == table && outcome.AsString() == "ok" {
			n += p.Count
		}
	}
	return n
}

// values returns a gauge's points by their attributes' values, joined by "/".
func values[T int64 | float64](r *rig, name string) map[string]T {
	out := map[string]T{}
	m, err := r.tel.GetMetric("otelcol_exporter_genaiclickhouse_" + name)
	if err != nil {
		return out
	}
	for _, p := range m.Data.(metricdata.Gauge[T]).DataPoints {
		var key []string
		for _, kv := range p.Attributes.ToSlice() {
			key = append(key, kv.Value.String())
		}
		out[strings.Join(key, "/")] = p.Value
	}
	return out
}

func TestPartsPressureIsThatOfTheFullestPartition(t *testing.T) {
	r := newRig(t)
	r.exec("ALTER TABLE %s.attempts_base MODIFY SETTING parts_to_delay_insert = 20, parts_to_throw_insert = 40")
	r.exec("SYSTEM STOP MERGES %s.attempts_base")
	rng := newSeed(t)
	for i := range 4 {
		row := randomRow(rng, rows.TableAttempts).(*rows.Attempt)
		row.EndedAt = start.UnixNano()
		if i == 0 {
			row.EndedAt = start.AddDate(0, 0, -1).UnixNano() // another partition
		}
		require.NoError(t, r.exp.ConsumeTraces(ctx, numbered(i, row)))
	}
	require.Empty(t, values[float64](r, "parts_pressure"), "unknown is not zero")
	r.clk.Advance(time.Minute)
	require.EqualValues(t, 3, values[int64](r, "parts_per_partition")["attempts"])
	got := values[float64](r, "parts_pressure")
	require.InDelta(t, 3.0/20, got["delay/attempts"], 1e-9)
	require.InDelta(t, 3.0/40, got["throw/attempts"], 1e-9)
	require.InDelta(t, 4.0/1000, got["delay/spans"], 4.0/1000, "the server's own limit: 1000 parts")
	require.Positive(t, got["delay/spans"])
	require.NotContains(t, got, "delay/rollup_attempts_1m", "only what the exporter writes")

	// Numbers that cannot be read any more are no longer shown.
	r.exec("DROP DATABASE %s SYNC")
	r.clk.Advance(time.Minute)
	require.Empty(t, values[float64](r, "parts_pressure"))
	r.exec("CREATE DATABASE %s")
}

func TestSchemaVersionAgeAndReadiness(t *testing.T) {
	r := newBareRig(t)
	row := randomRow(newSeed(t), rows.TableAttempts)
	require.Error(t, r.exp.ConsumeTraces(ctx, traces(row)))
	require.EqualValues(t, map[string]int64{"": 0}, values[int64](r, "schema_version"))
	require.EqualValues(t, map[string]int64{"": schema.Version}, values[int64](r, "schema_version_wanted"))
	require.EqualValues(t, map[string]int64{"": 0}, values[int64](r, "ready"))
	require.Empty(t, values[float64](r, "last_insert_age"), "nothing was stored yet")
	require.EqualValues(t, 1, r.where("retries", "code=0", "error=SCHEMA_NOT_MIGRATED"))

	require.NoError(t, schema.Up(ctx, r.conn, schema.Options{Database: r.db}, nil))
	require.NoError(t, r.exp.ConsumeTraces(ctx, traces(row)))
	require.EqualValues(t, map[string]int64{"": schema.Version}, values[int64](r, "schema_version"))
	require.EqualValues(t, map[string]int64{"": 1}, values[int64](r, "ready"))
	require.EqualValues(t, map[string]float64{"": 0}, values[float64](r, "last_insert_age"))
	r.clk.Advance(90 * time.Second)
	require.EqualValues(t, map[string]float64{"": 90}, values[float64](r, "last_insert_age"))
	r.clk.Advance(-2 * time.Hour)
	require.EqualValues(t, map[string]float64{"": 0}, values[float64](r, "last_insert_age"), "never negative")
	require.EqualValues(t, 1, r.inserts("attempts"))
	require.EqualValues(t, 1, r.inserts("spans"))
	require.EqualValues(t, 1, r.where("rows_written", "table=attempts"))
	require.Positive(t, r.where("sent_bytes"))
	before := r.where("written_bytes", "table=attempts")
	require.Greater(t, before, int64(100))
	longer := row.(*rows.Attempt)
	longer.Target += strings.Repeat("x", 1000)
	require.NoError(t, r.exp.ConsumeTraces(ctx, traces(longer)))
	require.InDelta(t, before+1000, r.where("written_bytes", "table=attempts")-before, 64)
}
