package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/groupbytraceprocessor"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"golang.org/x/sync/errgroup"

	"driftline/processor/genaisegment"
)

// Names of the two processors.
const (
	namePeer = "groupbytrace"
	nameOurs = "genaisegment"
)

// stepTime is what passes between two steps; half of each trace comes one step before its
// root. It is how often genaisegment looks for due work.
const stepTime = 500 * time.Millisecond

// result is one run of one processor.
type result struct {
	name  string
	spans int64
	rows  int64 // span events that came out: findings
	// wall and cpu are what the processor's work took, with garbage collection.
	wall, cpu time.Duration
	// peak is the most the heap held, garbage included; live is what it held after a
	// collection when the last span had come, both without what was there before.
	peak, live int64
	allocated  int64
	collected  uint32
}

func (r result) spansPerSecond() float64 { return float64(r.spans) / r.wall.Seconds() }
func (r result) microsPerSpan() float64 {
	return float64(r.cpu.Microseconds()) / float64(r.spans)
}

// sink consumes what comes out: it reads each span's id and counts.
type sink struct {
	spans, rows atomic.Int64
	ids         atomic.Uint64
}

func (*sink) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (s *sink) ConsumeTraces(_ context.Context, td ptrace.Traces) error {
	var spans, rows int64
	var ids uint64
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				if span.Name() != "driftline.checkpoint" {
					spans++
				}
				id := span.SpanID()
				ids += uint64(id[7])
				rows += int64(span.Events().Len())
			}
		}
	}
	s.spans.Add(spans)
	s.rows.Add(rows)
	s.ids.Add(ids)
	return nil
}

// make builds one of the processors such that a span is held for hold after its trace's
// root, which comes one step after the trace's first span.
func (o options) make(name string, next consumer.Traces) (processor.Traces, error) {
	factory, settings := genaisegment.NewFactory(), map[string]any{"linger": o.hold.String()}
	if name == namePeer {
		factory = groupbytraceprocessor.NewFactory()
		settings = map[string]any{"wait_duration": (o.hold + stepTime).String(), "num_workers": o.peerWorkers}
	}
	cfg := factory.CreateDefaultConfig()
	if err := confmap.NewFromStringMap(settings).Unmarshal(cfg); err != nil {
		return nil, fmt.Errorf("configure %s: %w", name, err)
	}
	if err := confmap.Validate(cfg); err != nil {
		return nil, fmt.Errorf("configure %s: %w", name, err)
	}
	set := processortest.NewNopSettings(component.MustNewType(name))
	set.ID = component.MustNewID(factory.Type().String())
	return factory.CreateTraces(context.Background(), set, cfg, next)
}

// run drives one processor through all steps.
func (o options) run(t *testing.T, name string, genai float64, heap *heapWatch) result {
	r := result{name: name}
	c := newCorpus(o.seed, genai, o.services, o.batch)
	runtime.GC()
	debug.FreeOSMemory()
	before := heapBytes()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		out := &sink{}
		p, err := o.make(name, out)
		must(t, err)
		must(t, p.Start(ctx, componenttest.NewNopHost()))
		heap.start()
		var sent int64
		var work stopwatch
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		allocated, collected := memory.TotalAlloc, memory.NumGC
		for step := range o.steps + 1 {
			traces := o.rate
			if step == o.steps {
				traces = 0 // only what was begun
			}
			// What the input takes counts for the collector as a receiver's would, but
			// making it must not pay for garbage that the processors left.
			collect := debug.SetGCPercent(-1)
			limit := debug.SetMemoryLimit(math.MaxInt64)
			made := heapAllocated()
			batches, spans := c.step(traces, time.Now())
			allocated += heapAllocated() - made
			debug.SetMemoryLimit(limit)
			debug.SetGCPercent(collect)

			work.start()
			time.Sleep(stepTime)
			must(t, push(ctx, p, batches, o.senders))
			clear(batches)
			synctest.Wait()
			work.stop()
			sent += int64(spans)
			if step == o.steps {
				runtime.GC()
				r.live = heapBytes() - before
			}
		}
		work.start()
		time.Sleep(o.hold + 4*stepTime)
		synctest.Wait()
		work.stop()
		r.peak = heap.stop() - before
		runtime.ReadMemStats(&memory)
		r.allocated, r.collected = int64(memory.TotalAlloc-allocated), memory.NumGC-collected
		if got := out.spans.Load(); got != sent {
			t.Errorf("%s: %d spans went in, %d came out before the shutdown", name, sent, got)
		}
		must(t, p.Shutdown(ctx))
		time.Sleep(2 * time.Second) // the peer's timers end by themselves
		r.spans, r.rows, r.wall, r.cpu = sent, out.rows.Load(), work.wall, work.cpu
	})
	return r
}

// push gives the batches to the processor from several senders.
func push(ctx context.Context, p processor.Traces, batches []ptrace.Traces, senders int) error {
	var g errgroup.Group
	var mu sync.Mutex
	next := 0
	for range senders {
		g.Go(func() error {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= len(batches) {
					return nil
				}
				td := batches[i]
				batches[i] = ptrace.Traces{}
				if err := p.ConsumeTraces(ctx, td); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
