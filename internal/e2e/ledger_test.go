package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"driftline/internal/sim"
)

// sums is a /metrics page with each metric summed over its labels, and by reason where it has one.
type sums map[string]float64

// scrape reads a Prometheus page. Counters that nothing was counted on yet are absent, which is 0.
func scrape(t *testing.T, page string) sums {
	t.Helper()
	code, body := get(t, page)
	require.Equal(t, http.StatusOK, code, body)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	require.NoError(t, err)
	out := sums{}
	for name, family := range families {
		// The name of a counter ends in _total with some settings of the collector.
		name = strings.TrimSuffix(name, "_total")
		for _, m := range family.GetMetric() {
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
			out[name] += value
			for _, l := range m.GetLabel() {
				if l.GetName() == "reason" {
					out[fmt.Sprintf("%s{reason=%q}", name, l.GetValue())] += value
				}
			}
		}
	}
	return out
}

func (s sums) processor(name string) float64 { return s["otelcol_processor_genaisegment_"+name] }
func (s sums) exporter(name string) float64  { return s["otelcol_exporter_genaiclickhouse_"+name] }

// running checks what holds at any moment.
func (s sums) running() error {
	if received, sum := s.processor("spans_received"), s.processor("spans_sent")+s.processor("spans_dropped")+s.processor("spans_held"); received != sum {
		return fmt.Errorf("processor: %v spans received, %v sent, dropped or held", received, sum)
	}
	if received, sum := s.exporter("spans_received"), s.exporter("spans_stored")+s.exporter("spans_skipped")+s.exporter("spans_refused"); received < sum {
		return fmt.Errorf("exporter: %v spans received, and yet %v stored, skipped or refused", received, sum)
	}
	if received, sum := s.exporter("rows_received"), s.exporter("rows_written")+s.exporter("rows_dropped")+s.exporter("rows_refused"); received < sum {
		return fmt.Errorf("exporter: %v rows received, and yet %v written, dropped or refused", received, sum)
	}
	return nil
}

// quiet checks what holds once nothing is in flight after n spans were accepted.
func (s sums) quiet(n int) error {
	if err := s.running(); err != nil {
		return err
	}
	for _, c := range []struct {
		what       string
		left, want float64
	}{
		{"spans accepted by the receiver and sent to it", s["otelcol_receiver_accepted_spans"], float64(n)},
		{"spans received by the processor and accepted by the receiver", s.processor("spans_received"), float64(n)},
		{"spans held by the processor", s.processor("spans_held"), 0},
		{"queue of the exporter", s["otelcol_exporter_queue_size"], 0},
		{"spans received by the exporter, not refused, and sent by the processor with synthetic ones",
			s.exporter("spans_received") - s.exporter("spans_refused"), s.processor("spans_sent") + s.processor("checkpoint_spans")},
		{"spans received by the exporter and stored, skipped or refused",
			s.exporter("spans_received"), s.exporter("spans_stored") + s.exporter("spans_skipped") + s.exporter("spans_refused")},
		{"rows received by the exporter and written, dropped or refused",
			s.exporter("rows_received"), s.exporter("rows_written") + s.exporter("rows_dropped") + s.exporter("rows_refused")},
	} {
		if c.left != c.want {
			return fmt.Errorf("%s: %v and %v", c.what, c.left, c.want)
		}
	}
	return nil
}

// simulated returns the exports of agents over a span of event time that ends about now.
func simulated(t *testing.T, length time.Duration, perMinute float64) []sim.Emission {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("traffic has seed %d", seed)
	rates := sim.DefaultRates()
	rates.RequestsPerMinute, rates.BystanderPerMinute = perMinute, perMinute/5
	s, err := sim.New(sim.Config{Seed: seed, Start: time.Now().Add(-length), Scenario: sim.ScenarioIncident, Rates: rates})
	require.NoError(t, err)
	return s.Next(time.Now())
}

func TestLedgerOnMetrics(t *testing.T) {
	t.Parallel()
	in := startStandalone(t, t.TempDir())
	sent := 0
	for i, e := range simulated(t, 4*time.Minute, 120) {
		require.NoError(t, sendSpans(t.Context(), in.otlp, e.Traces))
		sent += e.Traces.SpanCount()
		if i%20 == 0 {
			require.NoError(t, scrape(t, in.ui+"/metrics").running())
		}
	}
	require.Greater(t, sent, 2000)
	var s sums
	// The HTTP spans of calls that were still open at the end are held for attempt_wait and a
	// checkpoint, 40 seconds, since their model call may still come.
	eventually(t, 80*time.Second, func() error {
		s = scrape(t, in.ui+"/metrics")
		return s.quiet(sent)
	})
	// What the metrics say is what the tables hold.
	require.Zero(t, s.processor("spans_dropped"))
	require.Zero(t, s.exporter("rows_dropped"))
	require.Equal(t, s.processor("rows")+s.exporter("spans_stored"), s.exporter("rows_written"), "rows and thin spans reach the tables as they were made")
	conn := connect(t, in.clickhouse)
	require.NoError(t, want(t, conn, uint64(s.exporter("spans_stored")), "SELECT count() FROM spans"))
	require.NoError(t, want(t, conn, uint64(s.exporter("spans_stored")), "SELECT uniqExact(trace_id, span_id) FROM spans_base"))
	require.EqualValues(t, sent, s.exporter("spans_stored")+s[`otelcol_exporter_genaiclickhouse_spans_skipped{reason="not_genai"}`])
	t.Logf("%d spans sent, %v rows written", sent, s.exporter("rows_written"))
	in.stop(t)
}
