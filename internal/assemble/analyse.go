package assemble

import (
	"cmp"
	"slices"
	"time"

	"driftline/internal/genai"
	"driftline/internal/rows"
)

// release sends what is held of e, with the rows that are new or changed.
func (b *Buffer[P]) release(e *entry[P], reason string, complete bool, now time.Time) Release[P] {
	r := Release[P]{TraceID: e.id, Reason: reason, GenAI: e.genai, Spans: make([]Sent[P], len(e.held))}
	for i := range e.held {
		r.Spans[i].Payload = e.held[i].payload
	}
	if e.genai && (len(e.held) > 0 || b.set.CheckpointSpans) {
		result := b.set.Analyze(genai.Trace{
			Spans: e.spans, Complete: complete, Reason: reason, Truncated: e.truncated,
			LateFragment: e.fragment, Now: now.UnixNano(), AttemptWait: int64(b.set.AttemptWait),
		})
		if !complete {
			b.agents.name(result.Operations, result.Attempts)
		} else if !e.fragment {
			b.agents.learn(result.Operations, now)
		}
		if result.SkewedSpans > e.skewed {
			b.stats.Skewed += int64(result.SkewedSpans - e.skewed)
			e.skewed = result.SkewedSpans
		}
		c := newCarriers(e.held)
		c.mark(&result, r.Spans)
		c.load(b.changes(e, &result, complete, now), &r)
	}
	b.unhold(e)
	b.stats.Releases[reason]++
	return r
}

// unhold forgets the payloads: the caller has them now.
func (b *Buffer[P]) unhold(e *entry[P]) {
	var freed int64
	for i := range e.held {
		freed += e.held[i].size + bytesPerHeld
	}
	b.stats.Sent += int64(len(e.held))
	b.stats.Held -= int64(len(e.held))
	b.stats.Spans -= int64(e.unanalysed)
	b.stats.Bytes -= freed
	e.bytes -= freed
	e.held, e.unanalysed = nil, 0
}

// changes returns the rows that differ from what was sent before, tombstones for
// keys that are gone, and snapshots, all with this release's revision.
func (b *Buffer[P]) changes(e *entry[P], result *genai.Result, complete bool, now time.Time) []rows.Row {
	var out []rows.Row
	present := map[rows.Key]struct{}{}
	add := func(row rows.Row) {
		b.labels.apply(row, now)
		key, hash := row.Key(), b.digest.rowHash(row)
		present[key] = struct{}{}
		if before, sent := e.emitted[key]; sent && before == hash {
			return
		}
		b.remember(e, key, hash)
		out = append(out, row)
	}
	for _, row := range result.Requests {
		add(row)
	}
	for _, row := range result.Operations {
		add(row)
	}
	for _, row := range result.Attempts {
		add(row)
	}
	for _, row := range result.Segments {
		add(row)
	}
	// Every row of a fragment has revision 0, so a tombstone could not be told from
	// the row it takes back, or would take back a row of the whole trace.
	if !e.fragment {
		out = append(out, b.tombstones(e, result, present, complete)...)
	}
	for _, row := range result.Open {
		b.labels.apply(row, now)
		out = append(out, row) // each snapshot has its own key
	}
	if len(out) == 0 {
		return nil
	}
	if !e.fragment {
		e.revision++
	}
	for _, row := range out {
		row.Head().Revision = e.revision
		b.stats.Rows[string(row.Table())]++
	}
	return out
}

func (b *Buffer[P]) remember(e *entry[P], key rows.Key, hash uint64) {
	if _, known := e.emitted[key]; !known {
		e.bytes += bytesPerKey
		b.stats.Bytes += bytesPerKey
	}
	e.emitted[key] = hash
}

// tombstones takes back keys that were sent and are no longer true. While the trace
// is open a missing row may only be waiting for a further attempt, so then a key is
// taken back only if the result says what became of it: the same row under another
// key, or an operation that is now an attempt of another one.
func (b *Buffer[P]) tombstones(e *entry[P], result *genai.Result, present map[rows.Key]struct{}, complete bool) []rows.Row {
	var gone []rows.Key
	for key := range e.emitted {
		if _, still := present[key]; !still {
			gone = append(gone, key)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	if !complete {
		gone = slices.DeleteFunc(gone, replacedBy(result, present))
	}
	slices.SortFunc(gone, compareKeys)
	out := make([]rows.Row, 0, len(gone))
	for _, key := range gone {
		delete(e.emitted, key)
		e.bytes -= bytesPerKey
		b.stats.Bytes -= bytesPerKey
		out = append(out, tombstone(key))
	}
	return out
}

// replacedBy returns a test that is true for keys of which the result does not say
// what became.
func replacedBy(result *genai.Result, present map[rows.Key]struct{}) func(rows.Key) bool {
	type identity struct {
		table rows.Table
		id    string
		index int32
	}
	moved := make(map[identity]struct{}, len(present))
	for key := range present {
		moved[identity{key.Table, key.ID, key.Index}] = struct{}{}
	}
	folded := map[string]struct{}{}
	for _, a := range result.Attempts {
		if a.AttemptID != a.OperationID {
			folded[a.AttemptID] = struct{}{}
		}
	}
	return func(key rows.Key) bool {
		if _, ok := moved[identity{key.Table, key.ID, key.Index}]; ok {
			return false
		}
		_, ok := folded[key.ID]
		return key.Table != rows.TableOperations || !ok
	}
}

func compareKeys(a, b rows.Key) int {
	return cmp.Or(
		cmp.Compare(slices.Index(rows.Tables, a.Table), slices.Index(rows.Tables, b.Table)),
		cmp.Compare(a.Service, b.Service), cmp.Compare(a.Minute, b.Minute),
		cmp.Compare(a.ID, b.ID), cmp.Compare(a.Index, b.Index),
	)
}

// tombstone is a row with key's columns only.
func tombstone(key rows.Key) rows.Row {
	const minuteNS = int64(time.Minute)
	head := rows.Common{ServiceName: key.Service, TraceID: key.TraceID, Deleted: true}
	at := key.Minute * minuteNS
	switch key.Table {
	case rows.TableRequests:
		return &rows.Request{Common: head, Facts: rows.Facts{StartedAt: at, EndedAt: at, SampleWeight: 1}, RequestID: key.ID}
	case rows.TableOperations:
		return &rows.Operation{Common: head, Facts: rows.Facts{StartedAt: at, EndedAt: at, SampleWeight: 1}, OperationID: key.ID}
	case rows.TableAttempts:
		return &rows.Attempt{Common: head, Facts: rows.Facts{StartedAt: at, EndedAt: at, SampleWeight: 1}, AttemptID: key.ID}
	default: // snapshots are never taken back
		return &rows.Segment{Common: head, RequestID: key.ID, RequestEndedAt: at, StartedAt: at, SegmentIndex: uint32(key.Index)}
	}
}
