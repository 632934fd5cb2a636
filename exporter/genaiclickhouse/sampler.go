package genaiclickhouse

import (
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"driftline/internal/clock"
	"driftline/internal/rows"
)

// sampleInterval is the least time between two log lines about one table and reason.
const sampleInterval = time.Minute

// sampler logs one of the rows that are lost per table, reason and interval, with the
// number of others since the last line.
type sampler struct {
	logger *zap.Logger
	clk    clock.Clock

	mu   sync.Mutex
	seen map[sampleKey]*sample
}

type sampleKey struct {
	table  rows.Table
	reason string
}

type sample struct {
	logged  time.Time
	unsaid  int
	started bool
}

func newSampler(log *zap.Logger, clk clock.Clock) *sampler {
	return &sampler{logger: log, clk: clk, seen: map[sampleKey]*sample{}}
}

// turn says whether it is time for a line, and how many rows had none since the last.
func (s *sampler) turn(table rows.Table, reason string) (unsaid int, now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sampleKey{table, reason}
	seen := s.seen[key]
	if seen == nil {
		seen = &sample{}
		s.seen[key] = seen
	}
	at := s.clk.Now()
	// A clock that was set back must not silence the log until it has caught up.
	if age := at.Sub(seen.logged); seen.started && age >= 0 && age < sampleInterval {
		seen.unsaid++
		return 0, false
	}
	unsaid = seen.unsaid
	*seen = sample{logged: at, started: true}
	return unsaid, true
}

// log notes one row set aside. The line names the row and never holds attribute values.
func (s *sampler) log(b *badRow) {
	unsaid, now := s.turn(b.table, b.reason)
	if !now {
		return
	}
	s.logger.Warn("a row was set aside and is not stored",
		zap.String("table", string(b.table)), zap.String("reason", b.reason),
		zap.String("service", b.service), zap.String("trace_id", b.traceID),
		zap.Time("at", time.Unix(0, b.at).UTC()), zap.Error(b.err),
		zap.Int("others_since_last_line", unsaid))
}

// refused notes what ClickHouse refused for its content and is dropped. ClickHouse's own
// text is left out, since it quotes values.
func (s *sampler) refused(table rows.Table, f failure, piece ptrace.Traces) {
	unsaid, now := s.turn(table, f.name)
	if !now {
		return
	}
	span := firstSpan(piece)
	service := ""
	for _, rs := range piece.ResourceSpans().All() {
		service = serviceName(rs.Resource())
		break
	}
	s.logger.Error("ClickHouse refuses a row for its content, and the row is dropped",
		zap.String("table", string(table)), zap.String("error", f.name), zap.Int32("code", f.code),
		zap.String("service", service), zap.String("trace_id", span.TraceID().String()), zap.String("span_id", span.SpanID().String()),
		zap.String("what_to_do", f.mend), zap.Int("others_since_last_line", unsaid))
}
