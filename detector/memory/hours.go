package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"driftline/detector/store"
)

// OperationHours reads the hours that start at the given times. An hour stays as it was when
// it was first asked for, so that it outlives its minutes.
func (s *Store) OperationHours(ctx context.Context, hours []time.Time) ([]store.OperationHour, error) {
	var out []store.OperationHour
	for _, h := range hours {
		s.mu.Lock()
		known, ok := s.hours[h.Unix()]
		s.mu.Unlock()
		if !ok {
			minutes, err := s.operationMinutes(ctx, h, h.Add(time.Hour))
			if err != nil {
				return nil, err
			}
			for i := range minutes {
				if m := &minutes[i]; len(known) > 0 && known[len(known)-1].Slice == m.Slice {
					known[len(known)-1].Inference.Add(m.Inference)
					known[len(known)-1].Call.Add(m.Call)
				} else {
					known = append(known, store.OperationHour{Slice: m.Slice, Hour: h, Inference: m.Inference, Call: m.Call})
				}
			}
			s.mu.Lock()
			s.hours[h.Unix()] = known
			s.mu.Unlock()
		}
		out = append(out, known...)
	}
	slices.SortFunc(out, func(a, b store.OperationHour) int {
		return cmp.Or(compareSlices(a.Slice, b.Slice), a.Hour.Compare(b.Hour))
	})
	return out, nil
}
