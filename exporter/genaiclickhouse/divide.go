package genaiclickhouse

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/internal/rows"
)

const (
	// patience is how long an error that is not known is waited out, and how long rows that
	// ClickHouse refuses for their content wait while nothing else is stored in their table,
	// since then the table may be at fault and not the rows.
	patience = 10 * time.Minute
	// maxVain is how many pieces of a batch may be refused one after the other; the rest
	// then waits for the next try, undivided.
	maxVain = 32
)

// deliver stores td: cut so that no INSERT holds more rows than configured, and divided
// where ClickHouse refuses a piece for its content, until the rows are found that it
// refuses alone. Those are dropped and counted, their neighbours stored. What failed for
// another reason is handed back, to be tried again.
func (e *genaiExporter) deliver(ctx context.Context, td ptrace.Traces) error {
	d := delivery{e: e, key: keyOf(td)}
	todo := cutRows(td, e.cfg.MaxInsertRows)
	slices.Reverse(todo) // a stack: the first piece is on top
	// waiting were refused and could neither be divided nor, so far, be judged.
	var waiting []ptrace.Traces
	var waitingFor error
	stored := false
	for len(todo) > 0 || len(waiting) > 0 {
		if len(todo) == 0 {
			if !stored {
				return d.handBack(ctx, waitingFor, td, waiting)
			}
			// What was stored meanwhile may prove that the table is not at fault.
			todo, waiting, stored, d.vain = waiting, nil, false, 0
			slices.Reverse(todo)
		}
		d.piece = todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		err := e.push(ctx, d.piece, d.judge)
		switch {
		case err == nil:
			if n := e.tel.storedBatches(d.table); n > d.seen {
				d.vain, d.seen, stored = 0, n, true
			}
		case d.verdict == classPermanent:
			e.samples.refused(tableOf(err), describe(err), d.piece)
		case !d.content || ctx.Err() != nil:
			return d.handBack(ctx, err, td, append(append(waiting, d.piece), todo...))
		case isAlone(d.piece) || d.vain >= maxVain:
			d.vain++
			waiting, waitingFor = append(waiting, d.piece), err
		default:
			d.vain++
			first, second := halve(d.piece)
			todo = append(todo, second, first)
		}
	}
	e.suspects.forget(d.key)
	e.reportInsert(nil)
	return nil
}

// delivery is one call of deliver.
type delivery struct {
	e *genaiExporter
	// key finds what earlier tries of this batch have met.
	key suspectKey
	// piece is being stored. table is the one that refused the last piece, seen what it had
	// stored before, and vain the number of refusals since it stored something.
	piece ptrace.Traces
	table rows.Table
	seen  int64
	vain  int
	// content says that the piece was refused for its content, and verdict whether its rows
	// are lost.
	content bool
	verdict errorClass
}

// judge says whether the rows of a refused piece are lost. That takes proof that the rows
// are at fault: something was stored in their table since the batch was first refused.
// Where nothing else comes, patience that has run out is proof enough for errors that are
// known to be about content.
func (d *delivery) judge(err error) errorClass {
	f := describe(err)
	d.content, d.verdict = false, classRetryable
	table := tableOf(err)
	if table == "" || f.class != classPermanent && !f.unknown {
		return d.verdict
	}
	now := d.e.clk.Now()
	s := d.e.suspects.meet(d.key, now, d.e.tel.storedBatches)
	late := now.Sub(s.since) >= patience
	d.content = late || !f.unknown
	if d.table != table {
		d.table, d.seen = table, d.e.tel.storedBatches(table)
	}
	proven := d.e.tel.storedBatches(table) > s.stored[table]
	switch {
	case !d.content:
	case isAlone(d.piece) && (proven || late && !f.unknown), late && !f.unknown && d.vain >= maxVain:
		d.verdict = classPermanent
	}
	return d.verdict
}

// handBack returns the error that makes the collector try the pieces again.
func (d *delivery) handBack(ctx context.Context, err error, td ptrace.Traces, pieces []ptrace.Traces) error {
	d.e.tel.retry(ctx, describe(err))
	d.e.reportInsert(err)
	err = explain(err)
	if len(pieces) == 1 && pieces[0] == td {
		return err
	}
	rest := ptrace.NewTraces()
	for _, piece := range pieces {
		for _, rs := range piece.ResourceSpans().All() {
			rs.CopyTo(rest.ResourceSpans().AppendEmpty())
		}
	}
	d.e.suspects.rename(d.key, keyOf(rest))
	return consumererror.NewTraces(err, rest)
}

func tableOf(err error) rows.Table {
	var failed *insertError
	if errors.As(err, &failed) {
		return failed.table
	}
	return ""
}
