package memory

import (
	"context"
	"slices"
	"time"

	"driftline/detector/store"
)

// OperationHistory reads minutes in [from, to) for baselines, in the order of time and slices.
func (s *Store) OperationHistory(ctx context.Context, from, to time.Time) ([]store.OperationMinute, error) {
	out, err := s.operationMinutes(ctx, from, to)
	slices.SortStableFunc(out, func(a, b store.OperationMinute) int { return a.Minute.Compare(b.Minute) })
	return out, err
}

// operationMinutes are minutes in the order of slices and time.
func (s *Store) operationMinutes(ctx context.Context, from, to time.Time) ([]store.OperationMinute, error) {
	cells, err := s.OperationCells(ctx, from, to)
	var out []store.OperationMinute
	for i := range cells {
		c := &cells[i]
		k := len(out) - 1
		if k < 0 || out[k].Slice != c.Slice || !out[k].Minute.Equal(c.Minute) {
			m := store.OperationMinute{Slice: c.Slice, Minute: c.Minute}
			own(&m.Inference, &m.TTFT, &m.PerToken, &m.Call)
			out = append(out, m)
			k++
		}
		m, n := &out[k], c.N-c.Late
		m.N += n
		if c.Retries != "unknown" {
			m.Known += n
		}
		if c.Retries == "0" {
			m.FirstTimeouts += max(c.Timeouts, c.AtCap)
		}
		if c.Retries == "1" || c.Retries == "2+" {
			m.Retried += n
			m.Exhausted += n - c.OK - c.ClientErrors
		}
		m.LeafAttempts += c.LeafAttempts
		m.Cut += max(c.Timeouts+c.Cancelled, c.AtCap)
		m.DeadlineKnown += c.DeadlineKnown
		m.DeadlineMissed += c.DeadlineMissed
		m.InputTokens += c.InputTokens
		m.OutputTokens += c.OutputTokens
		m.CachedTokens += c.CachedTokens
		m.Inference.Add(c.Inference)
		m.TTFT.Add(c.TTFT)
		m.PerToken.Add(c.PerToken)
		m.Call.Add(c.Call())
	}
	return out, err
}

// RequestHistory reads minutes in [from, to) for baselines, in the order of time, slices and steps.
func (s *Store) RequestHistory(ctx context.Context, from, to time.Time) ([]store.RequestMinute, error) {
	cells, err := s.RequestCells(ctx, from, to)
	var out []store.RequestMinute
	for i := range cells {
		c := &cells[i]
		k := len(out) - 1
		if k < 0 || out[k].Slice != c.Slice || !out[k].Minute.Equal(c.Minute) || out[k].Steps != c.Steps {
			m := store.RequestMinute{Slice: c.Slice, Minute: c.Minute, Steps: c.Steps}
			own(&m.Hidden, &m.Drift)
			out = append(out, m)
			k++
		}
		m := &out[k]
		m.N += c.N - c.Late
		m.Operations += c.Operations
		m.Attempts += c.Attempts
		m.AttemptsUnknown += c.AttemptsUnknown
		m.DeadlineKnown += c.DeadlineKnown
		m.DeadlineMissed += c.DeadlineMissed
		m.Hidden.Add(c.Hidden)
		m.Drift.Add(c.Drift)
	}
	slices.SortStableFunc(out, func(a, b store.RequestMinute) int { return a.Minute.Compare(b.Minute) })
	return out, err
}
