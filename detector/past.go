package detector

import (
	"context"
	"iter"
	"time"

	"driftline/detector/store"
)

// MaxBlocksPerRead bounds the history read in one query, and with it how long the query and
// its answer hold the engine and memory.
const MaxBlocksPerRead = 2

func (e *Engine) loadBaselines(ctx context.Context, w time.Time) error {
	missing := e.baselines.Missing(w)
	starting := len(missing) > MaxBlocksPerRead // not only a block that has just ended
	if starting {
		e.log.Info("reading the history that baselines are made of", "blocks", len(missing))
	}
	rows := 0
	for p := range e.readAhead(ctx, missing) {
		if p.err != nil {
			return p.err
		}
		e.baselines.Load(p.from, p.to, p.ops, p.reqs)
		e.baselines.LoadAttempts(p.atts)
		rows += len(p.ops) + len(p.reqs) + len(p.atts)
	}
	if starting {
		e.log.Info("read the history that baselines are made of", "rows", rows)
	}
	return nil
}

// pastBlocks is the history of some blocks that follow each other, or why it was not read.
type pastBlocks struct {
	from, to time.Time
	ops      []store.OperationMinute
	reqs     []store.RequestMinute
	atts     []store.AttemptBlock
	err      error
}

// readAhead reads the blocks that start then, the next ones while the last ones are worked on. It
// ends after an error.
func (e *Engine) readAhead(ctx context.Context, starts []time.Time) iter.Seq[pastBlocks] {
	return func(yield func(pastBlocks) bool) {
		ctx, stop := context.WithCancel(ctx)
		read := make(chan pastBlocks)
		go func() {
			defer close(read)
			for len(starts) > 0 {
				n := 1
				for n < len(starts) && n < MaxBlocksPerRead && starts[n].Sub(starts[n-1]) == e.cfg.BlockLength {
					n++
				}
				p := e.readBlocks(ctx, starts[0], starts[n-1].Add(e.cfg.BlockLength))
				if p.err == nil {
					p.err = ctx.Err()
				}
				read <- p
				if p.err != nil {
					return
				}
				starts = starts[n:]
			}
		}()
		// Nothing reads once this is left.
		defer func() {
			stop()
			for range read {
			}
		}()
		for p := range read {
			if !yield(p) {
				return
			}
		}
	}
}

func (e *Engine) readBlocks(ctx context.Context, from, to time.Time) pastBlocks {
	p := pastBlocks{from: from, to: to}
	if p.ops, p.err = e.store.OperationHistory(ctx, from, to); p.err != nil {
		return p
	}
	if p.reqs, p.err = e.store.RequestHistory(ctx, from, to); p.err != nil {
		return p
	}
	p.atts, p.err = e.store.AttemptHistory(ctx, from, to, e.cfg.BlockLength)
	return p
}
