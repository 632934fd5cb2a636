package main

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"

	"driftline/internal/clock"
	"driftline/processor/genaisegment"
)

// segmented runs spans through genaisegment on a clock of its own.
type segmented struct {
	clk  *clock.Manual
	proc processor.Traces
	out  ptrace.Traces
}

func newSegmented(ctx context.Context, start time.Time) (*segmented, error) {
	s := &segmented{clk: clock.NewManual(start), out: ptrace.NewTraces()}
	next, err := consumer.NewTraces(func(_ context.Context, td ptrace.Traces) error {
		td.ResourceSpans().MoveAndAppendTo(s.out.ResourceSpans())
		return nil
	})
	if err != nil {
		return nil, err
	}
	f := genaisegment.NewFactoryWithClock(s.clk)
	s.proc, err = f.CreateTraces(ctx, processor.Settings{
		ID: component.NewID(f.Type()), TelemetrySettings: componenttest.NewNopTelemetrySettings(),
	}, f.CreateDefaultConfig(), next)
	if err != nil {
		return nil, err
	}
	return s, s.proc.Start(ctx, componenttest.NewNopHost())
}

// take hands whole traces to the processor at the instant the last of them ended and returns
// what it has released a minute later: all of them.
func (s *segmented) take(ctx context.Context, td ptrace.Traces, ended time.Time) (ptrace.Traces, error) {
	if d := ended.Sub(s.clk.Now()); d > 0 {
		s.clk.Advance(d)
	}
	want := td.SpanCount()
	if err := s.proc.ConsumeTraces(ctx, td); err != nil {
		return td, err
	}
	s.clk.Advance(time.Minute)
	out := s.out
	s.out = ptrace.NewTraces()
	if got := out.SpanCount(); got < want {
		return out, fmt.Errorf("genaisegment released %d of %d spans", got, want)
	}
	return out, nil
}
