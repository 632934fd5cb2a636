package genaiclickhouse

import (
	"maps"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/internal/rows"
)

// maxSuspects bounds what is remembered of refused batches. There are at most as many as
// the queue has consumers, and a few that were given up at a shutdown.
const maxSuspects = 256

// suspectKey names a batch over its tries, by its first span.
type suspectKey struct {
	trace pcommon.TraceID
	span  pcommon.SpanID
	name  string
}

// suspect is a batch that ClickHouse has refused for what it may hold.
type suspect struct {
	// since is when it was first refused; stored what had been stored by then, per table.
	since  time.Time
	stored map[rows.Table]int64
}

type suspects struct {
	mu  sync.Mutex
	all map[suspectKey]suspect
}

func keyOf(td ptrace.Traces) suspectKey {
	if td.SpanCount() == 0 {
		return suspectKey{}
	}
	span := firstSpan(td)
	return suspectKey{span.TraceID(), span.SpanID(), span.Name()}
}

// meet returns what is known of a batch, from now on if nothing is.
func (s *suspects) meet(key suspectKey, now time.Time, stored func(rows.Table) int64) suspect {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, known := s.all[key]; known {
		return old
	}
	if len(s.all) >= maxSuspects {
		maps.DeleteFunc(s.all, func(_ suspectKey, old suspect) bool { return now.Sub(old.since) > 2*patience })
	}
	if s.all == nil || len(s.all) >= maxSuspects {
		s.all = map[suspectKey]suspect{}
	}
	fresh := suspect{now, map[rows.Table]int64{}}
	for _, table := range writeOrder {
		fresh.stored[table] = stored(table)
	}
	s.all[key] = fresh
	return fresh
}

func (s *suspects) forget(key suspectKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, key)
}

// rename keeps what is known of a batch whose first spans are stored by now.
func (s *suspects) rename(from, to suspectKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, known := s.all[from]; known && from != to {
		delete(s.all, from)
		s.all[to] = old
	}
}
