package detector

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/store"
)

// past is a store with one call a minute, which notes where reads begin.
type past struct {
	Store
	froms []time.Time
	// at, if any, is called before each read of operations.
	at func(read int) error
}

func (p *past) OperationHistory(_ context.Context, from, to time.Time) (out []store.OperationMinute, err error) {
	p.froms = append(p.froms, from)
	if p.at != nil {
		err = p.at(len(p.froms))
	}
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		out = append(out, store.OperationMinute{Slice: Slice{Service: "shop", Agent: "planner", Kind: "chat", Target: "m1", Stream: "no"}, Minute: at, N: 1,
			Inference: measure(900), TTFT: measure(), PerToken: measure(), Call: measure(900)})
	}
	return out, err
}

func (p *past) RequestHistory(context.Context, time.Time, time.Time) ([]store.RequestMinute, error) {
	return nil, nil
}

func (p *past) AttemptHistory(context.Context, time.Time, time.Time, time.Duration) ([]store.AttemptBlock, error) {
	return nil, nil
}

// A start that fails reads nothing further, and the next round goes on where it ended. Nothing
// reads any more when it returns.
func TestAStartGoesOnWhereItFailed(t *testing.T) {
	cfg := DefaultConfig()
	for name, end := range map[string]func(cancel func()) error{
		"the store fails":        func(func()) error { return errors.New("no") },
		"the round is cancelled": func(cancel func()) error { cancel(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p := &past{at: func(read int) error {
				if read == 5 {
					return end(cancel)
				}
				return nil
			}}
			e := &Engine{cfg: cfg, store: p, baselines: NewBaselines(cfg), log: slog.New(slog.DiscardHandler)}
			missing := e.baselines.Missing(t0)
			require.Error(t, e.loadBaselines(ctx, t0))
			require.Len(t, p.froms, 5)
			left := e.baselines.Missing(t0)
			require.Equal(t, missing[4*MaxBlocksPerRead:], left, "four reads are in")

			p.froms, p.at = nil, nil
			require.NoError(t, e.loadBaselines(t.Context(), t0))
			require.Equal(t, left[0], p.froms[0])
			require.Empty(t, e.baselines.Missing(t0))

			// As if all had been read at once.
			whole := &Engine{cfg: cfg, store: &past{}, baselines: NewBaselines(cfg), log: e.log}
			require.NoError(t, whole.loadBaselines(t.Context(), t0))
			slice := Slice{Service: "shop", Agent: "planner", Kind: "chat", Target: "m1", Stream: "no"}
			require.Equal(t, whole.baselines.Operation(slice), e.baselines.Operation(slice))
			require.NotZero(t, e.baselines.Operation(slice).N)
		})
	}
}
