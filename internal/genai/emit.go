package genai

import (
	"strings"

	"driftline/internal/rows"
)

// emit turns what was found into rows.
func (a *analysis) emit(res *Result) {
	steps := make([]uint32, len(a.reqs)+1)
	tries, done := 0, 0
	for i := range a.ops {
		if a.ops[i].finished {
			done++
			tries += len(a.ops[i].tries)
		}
	}
	// Rows of one kind lie together: they are sent and forgotten together.
	operations, attempts := make([]rows.Operation, done), make([]rows.Attempt, tries)
	res.Operations, res.Attempts = make([]*rows.Operation, 0, done), make([]*rows.Attempt, 0, tries)
	for i := range a.ops {
		o := &a.ops[i]
		step := steps[o.request+1]
		steps[o.request+1]++
		if !o.finished {
			continue
		}
		row := &operations[len(res.Operations)]
		a.operationRow(row, o, int32(i), step)
		res.Operations = append(res.Operations, row)
		for k := range o.tries {
			try := &attempts[len(res.Attempts)]
			a.attemptRow(try, o, int32(i), &o.tries[k], row)
			res.Attempts = append(res.Attempts, try)
		}
	}
	if a.t.Complete {
		for r := range a.reqs {
			q := &a.reqs[r]
			if len(q.ops) == 0 && (q.root < 0 || !a.nodes[q.root].class.operation()) {
				continue
			}
			row := a.requestRow(q)
			res.Requests = append(res.Requests, row)
			res.Segments = append(res.Segments, a.segmentRows(q, row)...)
		}
	} else if len(a.reqs) == 0 {
		if row := a.openRow(); row != nil {
			res.Open = append(res.Open, row)
		}
	}
}

// common is what every row about span n has.
func (a *analysis) common(n *node) rows.Common {
	return rows.Common{ServiceName: n.resource().ServiceName, TraceID: n.TraceID}
}

// fillFacts sets what requests, operations and attempts share, in an empty row: rows are
// large, so they are filled in place. n is the span the row is about and end the one it
// ended with.
func (a *analysis) fillFacts(f *rows.Facts, n, end *node) {
	res := n.resource()
	f.ServiceVersion, f.Environment = res.ServiceVersion, res.Environment
	f.Kind, f.Name = n.kind, clip(n.Name, maxName)
	f.StartedAt, f.EndedAt = n.start, end.end
	f.Outcome, f.ErrorClass, f.HTTPStatus = rows.OutcomeOK, end.errClass, uint16(end.status)
	f.Truncated, f.LateFragment = a.t.Truncated, a.t.LateFragment
	f.SampleWeight = sampleWeight(n.TraceState, &n.f)
	f.Priority, f.Attributes = clip(n.f.str(slotPriority), 64), a.attributes(n)
	if end.failed() {
		f.Outcome, f.ErrorType = rows.OutcomeError, end.errType
		f.Censored = cut(end.errClass) || end.cutShort
	}
}

// cut says whether work that failed so was stopped from outside, so that its duration
// is only a lower bound.
func cut(class string) bool { return class == rows.ClassTimeout || class == rows.ClassCancelled }

const (
	maxAttributes       = 8
	defaultAttributeLen = 128
)

func (a *analysis) attributes(n *node) map[string]string {
	keys := a.opt.Attributes
	if len(keys) > maxAttributes {
		keys = keys[:maxAttributes]
	}
	length := a.opt.MaxAttributeLength
	if length <= 0 {
		length = defaultAttributeLen
	}
	var out map[string]string
	if n.lost {
		out = map[string]string{PartialKey: CallSpanMissing}
	}
	for _, k := range keys {
		if a.set.CarriesContent(k) {
			continue
		}
		for i := range n.Attrs {
			if n.Attrs[i].Key != k {
				continue
			}
			if s, ok := n.Attrs[i].Value.AsString(); ok {
				if out == nil {
					out = make(map[string]string, len(keys))
				}
				out[k] = clip(a.set.withoutContent(k, s), length)
			}
			break
		}
	}
	return out
}

// withoutContent takes out of a copied value what its key alone does not show: queries
// and credentials of URLs, and messages behind an error's name.
func (d *Dialects) withoutContent(key, value string) string {
	k := d.keys[key]
	if k == nil {
		return value
	}
	switch k.slot {
	case slotErrorType:
		return ErrorName(value)
	case slotURL, slotServer:
		if i := strings.IndexAny(value, "?#"); i >= 0 {
			value = value[:i]
		}
		scheme, rest, found := strings.Cut(value, "://")
		host, path, _ := strings.Cut(rest, "/")
		if i := strings.LastIndexByte(host, '@'); found && i >= 0 {
			value = scheme + "://" + host[i+1:] + "/" + path
		} else if !found && k.slot == slotServer {
			value = value[strings.LastIndexByte(value, '@')+1:]
		}
	}
	return value
}

func (a *analysis) requestID(r int32) string {
	if r < 0 {
		return ""
	}
	return a.reqs[r].id
}

// incomplete says whether spans of request r are missing.
func (a *analysis) incomplete(r int32) bool {
	if !a.t.Complete {
		return false
	}
	return r < 0 || a.reqs[r].incomplete
}
