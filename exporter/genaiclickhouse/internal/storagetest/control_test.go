package storagetest

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/exporter/genaiclickhouse"
	"driftline/internal/engine/enginetest"
	"driftline/internal/rows"
)

func withTimeout(d time.Duration) option {
	return func(c *genaiclickhouse.Config) { c.TimeoutConfig.Timeout = d }
}

// withStorage makes the queue persistent; put it after withQueue.
func withStorage(c *genaiclickhouse.Config) { c.QueueConfig.Get().StorageID = &storageID }

// numbered is traces with span ids that no other call with another number gives.
func numbered(n int, list ...rows.Row) ptrace.Traces {
	td := traces(list...)
	for i, span := range td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
		k := n + i
		span.SetSpanID(pcommon.SpanID{2, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n), byte(k >> 16), byte(k >> 8), byte(k)})
	}
	return td
}

// pause stops the engine until resume, or the end of the test.
func pause(t *testing.T, e *enginetest.Engine) {
	require.NoError(t, syscall.Kill(e.PID(), syscall.SIGSTOP))
	t.Cleanup(func() { resume(t, e) })
}

func resume(t *testing.T, e *enginetest.Engine) {
	require.NoError(t, syscall.Kill(e.PID(), syscall.SIGCONT))
}

// setTarget sends new connections elsewhere.
func (p *proxy) setTarget(host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = host
}

func (p *proxy) where() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// served is the number of connections so far.
func (p *proxy) served() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}
