package assemble

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"driftline/internal/genai"
	"driftline/internal/rows"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func testSettings() Settings {
	return Settings{
		CheckpointInterval: 10 * time.Second, Linger: 2 * time.Second, TraceTimeout: 10 * time.Minute,
		AttemptWait: 30 * time.Second, Remember: 5 * time.Minute,
		MaxTraces: 1000, MaxRemembered: 1000, MaxSpans: 100_000, MaxBytes: 64 << 20, MaxSpansPerTrace: 1000,
		MaxForgotten: 1000, MaxLabelValues: 100, CheckpointSpans: true,
		Analyze: toyAnalyze,
	}
}

// load is a payload: a number, and the span that it is.
type load struct {
	n    int
	span *genai.Span
}

type viewer struct{}

func (viewer) Reset()                 {}
func (viewer) View(l load) genai.Span { return *l.span }

// toy is a buffer of loads.
type toy struct {
	*Buffer[load]
	isGenAI func(*genai.Span) bool
}

func newToy(set Settings) toy {
	return toy{New(set, viewer{}), func(s *genai.Span) bool { return !strings.HasPrefix(s.Name, "plain") }}
}

func (b toy) Add(s genai.Span, n, size int, now time.Time) []Release[load] {
	a := Arrival[load]{Start: s.Start, Root: s.ParentID == "", GenAI: b.isGenAI(&s), Call: strings.HasSuffix(s.Name, "POST"), ModelCall: (&genai.Options{}).CallsModel(&s), Size: size, Payload: load{n, &s}}
	if _, err := hex.Decode(a.TraceID[:], []byte(s.TraceID)); err != nil {
		panic(err)
	}
	return b.Buffer.Add(a, now)
}

func payloads(sent []Sent[load]) []int {
	var out []int
	for i := range sent {
		out = append(out, sent[i].Payload.n)
	}
	return out
}

// toyAnalyze is a domain small enough to reason about: spans with one name below one
// trace are tries of one operation, whose id is that of the first; a root makes a
// request with a segment per operation.
func toyAnalyze(t genai.Trace) genai.Result {
	result := genai.Result{GenAI: true}
	groups := map[string][]genai.Span{}
	var root *genai.Span
	seen := map[string]bool{}
	for _, s := range t.Spans {
		if seen[s.SpanID] {
			continue
		}
		seen[s.SpanID] = true
		if s.ParentID == "" {
			root = &s
			continue
		}
		groups[s.Name] = append(groups[s.Name], s)
	}
	common := rows.Common{ServiceName: t.Spans[0].Resource.ServiceName, TraceID: t.Spans[0].TraceID}
	facts := func(name string, start, end int64) rows.Facts {
		return rows.Facts{Name: name, StartedAt: start, EndedAt: end, Truncated: t.Truncated,
			LateFragment: t.LateFragment, Incomplete: root == nil}
	}
	for name, spans := range groups {
		slices.SortFunc(spans, func(a, b genai.Span) int {
			return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.SpanID, b.SpanID))
		})
		end := int64(0)
		for i, s := range spans {
			end = max(end, s.End)
			result.Attempts = append(result.Attempts, &rows.Attempt{Common: common, Facts: facts(name, s.Start, s.End),
				AttemptID: s.SpanID, OperationID: spans[0].SpanID, Ordinal: uint32(i + 1)})
		}
		n := uint32(len(spans))
		result.Operations = append(result.Operations, &rows.Operation{Common: common,
			Facts: facts(name, spans[0].Start, end), OperationID: spans[0].SpanID, Target: name, Attempts: &n})
	}
	slices.SortFunc(result.Operations, func(a, b *rows.Operation) int { return cmp.Compare(a.OperationID, b.OperationID) })
	switch {
	case root != nil && t.Complete:
		result.Requests = []*rows.Request{{Common: common, Facts: facts(root.Name, root.Start, root.End),
			RequestID: root.SpanID, Operations: uint32(len(groups)), ReleaseReason: t.Reason}}
		for i, o := range result.Operations {
			result.Segments = append(result.Segments, &rows.Segment{Common: common, RequestID: root.SpanID,
				RequestEndedAt: root.End, SegmentIndex: uint32(i), OperationID: o.OperationID})
		}
	case root == nil && !t.Complete:
		result.Open = []*rows.OpenRequest{{Common: common, ObservedAt: t.Now, Spans: uint32(len(t.Spans))}}
	}
	return result
}

func span(trace, id int, name string, from, to time.Duration) genai.Span {
	s := genai.Span{
		TraceID: fmt.Sprintf("%032x", trace), SpanID: fmt.Sprintf("%016x", id), ParentID: "00000000000000ff",
		Name: name, Start: start.Add(from).UnixNano(), End: start.Add(to).UnixNano(),
		Resource: &genai.Resource{ServiceName: "svc"},
	}
	if name == "root" || name == "plain root" {
		s.ParentID = ""
	}
	return s
}

// table is what a store would hold: the latest row of each key.
type table map[rows.Key]rows.Row

func (t table) take(releases []Release[load]) table {
	for i := range releases {
		for j := range releases[i].Spans {
			t.put(releases[i].Spans[j].Rows)
		}
		t.put(releases[i].Loose)
	}
	return t
}

func (t table) put(list []rows.Row) {
	for _, row := range list {
		if before, known := t[row.Key()]; known && before.Head().Revision > row.Head().Revision {
			continue
		}
		t[row.Key()] = row
	}
}

// final is the rows that count, without what depends on how often a trace was
// released.
func (t table) final() map[rows.Key]rows.Row {
	out := map[rows.Key]rows.Row{}
	for key, row := range t {
		if row.Head().Deleted || key.Table == rows.TableOpenRequests {
			continue
		}
		row.Head().Revision = 0
		if q, ok := row.(*rows.Request); ok {
			q.ReleaseReason = ""
		}
		out[key] = row
	}
	return out
}

func (t table) count(which rows.Table) int {
	n := 0
	for key, row := range t {
		if key.Table == which && !row.Head().Deleted {
			n++
		}
	}
	return n
}
