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
	traceID := idText(e.id)
	r := Release[P]{TraceID: traceID, Reason: reason, GenAI: e.genai, Spans: make([]Sent[P], len(e.held))}
	for i := range e.held {
		r.Spans[i].Payload = e.held[i].payload
	}
	worth := e.genai || e.asked && complete
	if len(e.held) > 0 || worth && b.set.CheckpointSpans {
		b.understand(e, traceID)
		b.endRunning(e)
		if worth {
			b.analyse(e, &r, complete, now)
		}
		b.unhold(e)
		b.pack(e)
		b.work.trim()
	}
	b.stats.Releases[reason]++
	return r
}

// analyse finds the rows of the spans in the scratch and puts them on those being sent.
func (b *Buffer[P]) analyse(e *entry[P], r *Release[P], complete bool, now time.Time) {
	trace := genai.Trace{
		Spans: b.work.spans, Complete: complete, Reason: r.Reason, Truncated: e.truncated,
		LateFragment: e.fragment, HadPartial: e.partial, LastArrival: e.last, Now: now.UnixNano(), AttemptWait: int64(b.set.AttemptWait),
	}
	if e.beats != nil {
		trace.Running, trace.Heartbeats, trace.LastHeartbeat = e.beats.running, e.beats.count, e.beats.last
	}
	result := b.set.Analyze(trace)
	e.genai = e.genai || result.GenAI
	r.GenAI = e.genai
	if !complete {
		b.agents.name(result.Operations, result.Attempts)
	} else if !e.fragment {
		b.agents.learn(result.Operations, now)
	}
	if result.SkewedSpans > e.skewed {
		b.stats.Skewed += int64(result.SkewedSpans - e.skewed)
		e.skewed = result.SkewedSpans
	}
	c := newCarriers(b.work.views)
	mark(&c, &result, r.Spans)
	ride(&c, b.changes(e, r.TraceID, &result, complete, now), r)
	e.partial = e.partial || len(result.Partial) > 0
}

// unhold forgets the payloads: the caller has them now.
func (b *Buffer[P]) unhold(e *entry[P]) {
	var freed int64
	for i := range e.held {
		freed += e.held[i].size + bytesPerHeld
	}
	b.stats.Sent += int64(len(e.held))
	b.stats.Held -= int64(len(e.held))
	b.stats.Spans -= int64(len(e.held))
	b.weigh(e, -freed)
	e.held = nil
}

// changes returns the rows that differ from what was sent before, tombstones for
// keys that are gone, and snapshots, all with this release's revision.
func (b *Buffer[P]) changes(e *entry[P], traceID string, result *genai.Result, complete bool, now time.Time) []rows.Row {
	before := b.sentKeys(e, traceID)
	n := len(result.Requests) + len(result.Operations) + len(result.Attempts) + len(result.Segments)
	out := make([]rows.Row, 0, n+len(result.Open))
	list := b.work.keep[:0]
	var present map[rows.Key]struct{}
	if before != nil {
		present = make(map[rows.Key]struct{}, n)
	}
	add := func(row rows.Row) {
		b.labels.apply(row, now)
		k := sentKey{row.Key(), b.digest.rowHash(row)}
		list = append(list, k)
		if before != nil {
			present[k.key] = struct{}{}
			if hash, sent := before[k.key]; sent && hash == k.hash {
				return
			}
		}
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
	if len(before) > 0 {
		taken, kept := b.gone(e, before, present, result, complete)
		out, list = append(out, taken...), append(list, kept...)
	}
	b.rememberKeys(e, list)
	clear(list)
	b.work.keep = list[:0]
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
		// Of a trace that was split, the call's own span may have come elsewhere: its rows win.
		// Rows that replace others must count themselves.
		if !e.partial && slices.Contains(result.Partial, row.Key().ID) {
			row.Head().Revision = 0
		}
		b.stats.Rows[string(row.Table())]++
	}
	return out
}

// gone splits the keys that were sent before and are not present: tombstones for those
// that are no longer true, and what stays known as sent. While the trace is open a missing
// row may only be waiting for a further attempt, so then a key is taken back only if the
// result says what became of it: the same row under another key, or an operation that is
// now an attempt of another one, or the same call as one around it. Every row of a fragment has revision 0, so a tombstone
// could not be told from the row it takes back, or would take back one of the whole trace.
func (b *Buffer[P]) gone(e *entry[P], before map[rows.Key]uint64, present map[rows.Key]struct{}, result *genai.Result, complete bool) ([]rows.Row, []sentKey) {
	var absent []rows.Key
	for key := range before {
		if _, still := present[key]; !still {
			absent = append(absent, key)
		}
	}
	if len(absent) == 0 {
		return nil, nil
	}
	slices.SortFunc(absent, compareKeys)
	unexplained := func(rows.Key) bool { return e.fragment }
	if !complete && !e.fragment {
		unexplained = replacedBy(result, present)
	}
	var out []rows.Row
	var kept []sentKey
	for _, key := range absent {
		if unexplained(key) {
			kept = append(kept, sentKey{key, before[key]})
			continue
		}
		out = append(out, tombstone(key))
	}
	return out, kept
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
	for _, id := range result.Absorbed {
		folded[id] = struct{}{}
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
