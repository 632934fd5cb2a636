package genaiclickhouse

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"driftline/internal/clock"
	"driftline/internal/rows"
)

// sampleInterval is the least time between two log lines about one table and reason.
const sampleInterval = time.Minute

// sampler logs one of the rows set aside per table, reason and interval, with the number
// of others since the last line.
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

// log notes one row set aside. The line names the row and never holds attribute values.
func (s *sampler) log(b *badRow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sampleKey{b.table, b.reason}
	seen := s.seen[key]
	if seen == nil {
		seen = &sample{}
		s.seen[key] = seen
	}
	now := s.clk.Now()
	if seen.started && now.Sub(seen.logged) < sampleInterval {
		seen.unsaid++
		return
	}
	s.logger.Warn("a row was set aside and is not stored",
		zap.String("table", string(b.table)), zap.String("reason", b.reason),
		zap.String("service", b.service), zap.String("trace_id", b.traceID),
		zap.Time("at", time.Unix(0, b.at).UTC()), zap.Error(b.err),
		zap.Int("others_since_last_line", seen.unsaid))
	seen.logged, seen.unsaid, seen.started = now, 0, true
}
