package genaisegment

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"driftline/internal/assemble"
	"driftline/internal/rows"
)

// counts is everything the processor knows of itself, at one moment.
type counts struct {
	buffer                assemble.Stats
	out                   outboxCounts
	received, held, bytes int64
	stripped, withoutIDs  int64
}

// snapshot reads the ledger at one moment: received = sent + dropped + held.
func (p *segments) snapshot() counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := counts{buffer: p.buffer.Stats(), out: p.out.snapshot()}
	c.received = c.buffer.Received + p.passed
	c.held = c.buffer.Held - p.abandoned + c.out.inFlight
	c.stripped, c.withoutIDs = p.stripped, p.withoutIDs
	c.bytes = c.buffer.Bytes + c.buffer.Overhead + c.out.bytes
	return c
}

// openTraces looks at every open trace; it is for metrics only.
func (p *segments) openTraces() assemble.Open {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buffer.Open()
}

// oldestOpen is how long ago the oldest open request began, 0 without one. A clock ahead
// of ours makes no negative age.
func (p *segments) oldestOpen() time.Duration {
	open := p.openTraces()
	if !open.Any {
		return 0
	}
	return max(0, p.clock.Now().Sub(time.Unix(0, open.Began)))
}

// observe lets each metric read a snapshot when it is collected.
func (p *segments) observe() error {
	t := p.telemetry
	var problems []error
	one := func(register func(metric.Int64Callback) error, read func(counts) int64) {
		problems = append(problems, register(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(read(p.snapshot()))
			return nil
		}))
	}
	each := func(register func(metric.Int64Callback) error, read func(counts, func(int64, ...attribute.KeyValue))) {
		problems = append(problems, register(func(_ context.Context, o metric.Int64Observer) error {
			read(p.snapshot(), func(n int64, attrs ...attribute.KeyValue) { o.Observe(n, metric.WithAttributes(attrs...)) })
			return nil
		}))
	}

	one(t.RegisterProcessorGenaisegmentSpansReceivedCallback, func(c counts) int64 { return c.received })
	one(t.RegisterProcessorGenaisegmentSpansSentCallback, func(c counts) int64 { return c.out.sent })
	one(t.RegisterProcessorGenaisegmentSpansHeldCallback, func(c counts) int64 { return c.held })
	one(t.RegisterProcessorGenaisegmentSpansRefusedCallback, func(c counts) int64 { return c.out.refused })
	one(t.RegisterProcessorGenaisegmentSpansBufferedCallback, func(c counts) int64 { return c.buffer.Spans })
	one(t.RegisterProcessorGenaisegmentSpansLimitCallback, func(counts) int64 { return int64(p.cfg.MaxSpans) })
	one(t.RegisterProcessorGenaisegmentTracesOpenCallback, func(c counts) int64 { return c.buffer.Open })
	one(t.RegisterProcessorGenaisegmentTracesBufferedCallback, func(c counts) int64 { return c.buffer.Traces })
	one(t.RegisterProcessorGenaisegmentTracesLimitCallback, func(counts) int64 { return int64(p.cfg.MaxTraces) })
	one(t.RegisterProcessorGenaisegmentTracesRememberedCallback, func(c counts) int64 { return c.buffer.Remembered })
	one(t.RegisterProcessorGenaisegmentTracesRememberedLimitCallback, func(counts) int64 { return int64(p.cfg.MaxRememberedTraces) })
	one(t.RegisterProcessorGenaisegmentLabelValuesCallback, func(c counts) int64 { return c.buffer.LabelValues })
	one(t.RegisterProcessorGenaisegmentLabelValuesLimitCallback, func(counts) int64 { return int64(p.cfg.MaxLabelValues) })
	one(t.RegisterProcessorGenaisegmentLargestTraceLimitCallback, func(counts) int64 { return int64(p.cfg.MaxSpansPerTrace) })
	problems = append(problems, t.RegisterProcessorGenaisegmentLargestTraceCallback(func(_ context.Context, o metric.Int64Observer) error {
		o.Observe(int64(p.openTraces().LargestTrace))
		return nil
	}), t.RegisterProcessorGenaisegmentOldestOpenRequestAgeCallback(func(_ context.Context, o metric.Int64Observer) error {
		o.Observe(int64(p.oldestOpen().Seconds()))
		return nil
	}))
	one(t.RegisterProcessorGenaisegmentMemoryUsageCallback, func(c counts) int64 { return c.bytes })
	one(t.RegisterProcessorGenaisegmentMemoryLimitCallback, func(counts) int64 { return p.cfg.maxBytes() })
	one(t.RegisterProcessorGenaisegmentSpansDuplicateCallback, func(c counts) int64 { return c.buffer.Duplicates })
	one(t.RegisterProcessorGenaisegmentSpansTruncatedCallback, func(c counts) int64 { return c.buffer.Truncated })
	one(t.RegisterProcessorGenaisegmentSpansStrippedCallback, func(c counts) int64 { return c.stripped })
	one(t.RegisterProcessorGenaisegmentSpansWithoutIdsCallback, func(c counts) int64 { return c.withoutIDs })
	one(t.RegisterProcessorGenaisegmentSpansLateCallback, func(c counts) int64 { return c.buffer.Late })
	one(t.RegisterProcessorGenaisegmentSpansLateFragmentCallback, func(c counts) int64 { return c.buffer.LateFragments })
	one(t.RegisterProcessorGenaisegmentSpansSkewedCallback, func(c counts) int64 { return c.buffer.Skewed })
	one(t.RegisterProcessorGenaisegmentLabelValuesOverflowCallback, func(c counts) int64 { return c.buffer.OverflowLabels })
	one(t.RegisterProcessorGenaisegmentCheckpointSpansCallback, func(c counts) int64 { return c.out.synthetic })

	each(t.RegisterProcessorGenaisegmentSpansDroppedCallback, func(c counts, observe func(int64, ...attribute.KeyValue)) {
		for _, reason := range dropReasons {
			observe(c.out.dropped[reason], attribute.String("reason", reason))
		}
	})
	each(t.RegisterProcessorGenaisegmentRowsDroppedCallback, func(c counts, observe func(int64, ...attribute.KeyValue)) {
		for _, reason := range dropReasons {
			observe(c.out.droppedRows[reason], attribute.String("reason", reason))
		}
	})
	each(t.RegisterProcessorGenaisegmentReleasesCallback, func(c counts, observe func(int64, ...attribute.KeyValue)) {
		for _, reason := range assemble.Reasons {
			observe(c.buffer.Releases[reason], attribute.String("reason", reason))
		}
	})
	each(t.RegisterProcessorGenaisegmentRowsCallback, func(c counts, observe func(int64, ...attribute.KeyValue)) {
		for _, table := range rows.Tables {
			observe(c.buffer.Rows[string(table)], attribute.String("table", string(table)))
		}
	})
	each(t.RegisterProcessorGenaisegmentEvictionsCallback, func(c counts, observe func(int64, ...attribute.KeyValue)) {
		for _, bound := range assemble.Bounds {
			observe(c.buffer.EvictedOpen[bound], attribute.String("bound", string(bound)), attribute.String("state", "open"))
			observe(c.buffer.EvictedRemembered[bound], attribute.String("bound", string(bound)), attribute.String("state", "remembered"))
		}
	})
	return errors.Join(problems...)
}
