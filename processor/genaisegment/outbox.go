package genaisegment

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"driftline/internal/annotate"
)

// Reasons for which spans are dropped.
const (
	dropDownstream = "downstream_error" // the next component refused for good
	dropOverflow   = "retry_overflow"   // it failed for so long that the memory for retries ran out
	dropShutdown   = "shutdown"         // the collector ended before they could be sent
)

var dropReasons = []string{dropDownstream, dropOverflow, dropShutdown}

const (
	firstBackoff = time.Second
	maxBackoff   = 30 * time.Second
	warnEvery    = 10 * time.Second
)

// outbox hands batches to the next component. Releases happen on nobody's behalf, so
// there is no sender to give an error back to: what fails for now waits here, within
// a bound in bytes, and what is lost is counted.
type outbox struct {
	next   consumer.Traces
	limit  int64
	logger *zap.Logger

	mu       sync.Mutex // guards what follows; never held while next is called
	waiting  []batch
	bytes    int64
	retryAt  time.Time
	backoff  time.Duration
	warnedAt time.Time
	counts   outboxCounts
}

// outboxCounts are the outbox's part of the ledger. inFlight is what left the buffer
// and was neither sent nor dropped.
type outboxCounts struct {
	sent, synthetic, inFlight, refused int64
	dropped, droppedRows               map[string]int64
	bytes                              int64
}

func newOutbox(next consumer.Traces, limit int64, logger *zap.Logger) *outbox {
	return &outbox{next: next, limit: limit, logger: logger, counts: outboxCounts{
		dropped: map[string]int64{}, droppedRows: map[string]int64{},
	}}
}

// begin says that n spans have left the buffer for the outbox.
func (o *outbox) begin(n int64) {
	o.mu.Lock()
	o.counts.inFlight += n
	o.mu.Unlock()
}

// refuse says whether n more spans must be sent back to their sender, and counts them.
func (o *outbox) refuse(n int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bytes < o.limit/2 {
		return false
	}
	o.counts.refused += int64(n)
	return true
}

// deliver sends b now, or puts it behind those that wait for the next component.
func (o *outbox) deliver(ctx context.Context, b batch, now time.Time) {
	o.mu.Lock()
	wait := len(o.waiting) > 0
	o.mu.Unlock()
	if wait || !o.try(ctx, &b, now) {
		o.keep(b, now)
	}
}

// try sends b and settles it unless the failure may pass.
func (o *outbox) try(ctx context.Context, b *batch, now time.Time) (settled bool) {
	td := b.td
	if o.next.Capabilities().MutatesData {
		td = ptrace.NewTraces() // a failed call may have changed what it was given
		b.td.CopyTo(td)
	}
	err := o.next.ConsumeTraces(ctx, td)
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil:
		o.counts.sent += b.spans
		o.counts.synthetic += b.synthetic
		o.counts.inFlight -= b.spans
		o.backoff = 0
		return true
	case consumererror.IsPermanent(err):
		o.drop(b, dropDownstream, err, now)
		return true
	}
	o.backoff = min(max(2*o.backoff, firstBackoff), maxBackoff)
	o.retryAt = now.Add(o.backoff)
	o.warn("The next component failed; spans wait for a retry", err, now)
	return false
}

// keep queues b; the oldest make room.
func (o *outbox) keep(b batch, now time.Time) {
	b.size = heapOf(b.td)
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.waiting) > 0 && o.bytes+b.size > o.limit {
		oldest := o.waiting[0]
		o.waiting = o.waiting[1:]
		o.bytes -= oldest.size
		o.drop(&oldest, dropOverflow, nil, now)
	}
	o.waiting = append(o.waiting, b)
	o.bytes += b.size
}

// heapOf is about what td takes, in bytes.
func heapOf(td ptrace.Traces) int64 {
	n := 0
	for _, rs := range td.ResourceSpans().All() {
		n += annotate.ResourceHeapSize(rs)
		for _, ss := range rs.ScopeSpans().All() {
			n += annotate.ScopeHeapSize(ss)
			for _, span := range ss.Spans().All() {
				n += annotate.HeapSize(span)
			}
		}
	}
	return int64(n)
}

// drop counts b as lost; mu is held.
func (o *outbox) drop(b *batch, reason string, err error, now time.Time) {
	o.counts.dropped[reason] += b.spans
	o.counts.droppedRows[reason] += b.rows
	o.counts.inFlight -= b.spans
	o.warn("Spans are dropped", err, now, zap.String("reason", reason), zap.Int64("spans", b.spans), zap.Int64("rows", b.rows))
}

// warn logs at most once per warnEvery; the counters tell the rest. mu is held.
func (o *outbox) warn(text string, err error, now time.Time, fields ...zap.Field) {
	if !o.warnedAt.IsZero() && now.Sub(o.warnedAt) < warnEvery {
		return
	}
	o.warnedAt = now
	o.logger.Warn(text, append(fields, zap.Error(err))...)
}

// retry sends what waits, oldest first, until the next component fails again.
func (o *outbox) retry(ctx context.Context, now time.Time) {
	o.mu.Lock()
	due := !now.Before(o.retryAt)
	o.mu.Unlock()
	if due {
		o.retryAll(ctx, now)
	}
}

func (o *outbox) retryAll(ctx context.Context, now time.Time) {
	for ctx.Err() == nil {
		o.mu.Lock()
		if len(o.waiting) == 0 {
			o.mu.Unlock()
			return
		}
		b := o.waiting[0]
		o.waiting = o.waiting[1:]
		o.bytes -= b.size
		o.mu.Unlock()
		if o.try(ctx, &b, now) {
			continue
		}
		o.mu.Lock()
		o.waiting = append([]batch{b}, o.waiting...)
		o.bytes += b.size
		o.mu.Unlock()
		return
	}
}

// close makes a last attempt to send what waits, and counts that and the held spans
// that never left the buffer as lost to the shutdown.
func (o *outbox) close(ctx context.Context, now time.Time, held int64) error {
	o.retryAll(ctx, now)
	o.mu.Lock()
	defer o.mu.Unlock()
	lost := held
	o.counts.dropped[dropShutdown] += held
	for i := range o.waiting {
		lost += o.waiting[i].spans
		o.drop(&o.waiting[i], dropShutdown, nil, now)
	}
	o.waiting, o.bytes = nil, 0
	if lost > 0 {
		return fmt.Errorf("genaisegment: %d held spans were lost at shutdown: the next component did not take them in time", lost)
	}
	return nil
}

func (o *outbox) snapshot() outboxCounts {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.counts
	c.bytes = o.bytes
	c.dropped, c.droppedRows = map[string]int64{}, map[string]int64{}
	for _, reason := range dropReasons {
		c.dropped[reason] = o.counts.dropped[reason]
		c.droppedRows[reason] = o.counts.droppedRows[reason]
	}
	return c
}
