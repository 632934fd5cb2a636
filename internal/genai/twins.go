package genai

import (
	"cmp"
	"slices"
	"strings"
)

// Instrumentations that hear of calls by callbacks, such as those of LangChain and LiteLLM,
// do not put their span around that of the SDK's instrumentation: both lie somewhere in the
// trace, and one call would count twice, with its tokens. What follows puts one below the
// other, from where they fold like any nested spans.

const (
	// twinSlack is how much earlier the outer of two such spans may begin, and how much later
	// end; provenSlack is the same where both state the same numbers of tokens.
	twinSlack   = 20 * ms
	provenSlack = 100 * ms
	// twinShare is the part of the call's length that either may be at most.
	twinShare = 10
	// maxTwins bounds how many spans that begin together are compared with one.
	maxTwins = 64
)

// twin is a pair of spans that tell of one call, and how far apart their ends are.
type twin struct {
	outer, inner int32
	apart        int64
}

// adoptTwins puts the inner of each pair below the outer. Nearest pairs go first, and each
// span is in one: whichever of several like calls are paired, there are as many.
func (a *analysis) adoptTwins() {
	calls := a.callsOfSeveralScopes()
	if calls == nil {
		return
	}
	var pairs []twin
	for k, i := range calls {
		for _, j := range calls[k+1 : min(k+1+maxTwins, len(calls))] {
			if a.nodes[j].start-a.nodes[i].start > provenSlack {
				break
			}
			if p, ok := a.twins(i, j); ok {
				pairs = append(pairs, p)
			}
		}
	}
	slices.SortStableFunc(pairs, func(x, y twin) int { return cmp.Compare(x.apart, y.apart) })
	paired := map[int32]bool{}
	for _, p := range pairs {
		if !paired[p.outer] && !paired[p.inner] && !a.within(p.outer, p.inner) {
			paired[p.outer], paired[p.inner] = true, true
			a.nodes[p.inner].parent = p.outer
		}
	}
}

// callsOfSeveralScopes lists the outermost model spans, if instrumentations of different
// names wrote them.
func (a *analysis) callsOfSeveralScopes() []int32 {
	first, several := int32(-1), false
	for i := range a.nodes {
		if n := &a.nodes[i]; n.class == classModel {
			if first < 0 {
				first = int32(i)
			}
			several = several || n.Scope != a.nodes[first].Scope
		}
	}
	if !several {
		return nil
	}
	var out []int32
	for i := first; i < int32(len(a.nodes)); i++ {
		if n := &a.nodes[i]; n.class == classModel && !a.belowCall(i) {
			out = append(out, i)
		}
	}
	return out
}

// belowCall says whether a model span is around span i.
func (a *analysis) belowCall(i int32) bool {
	p := a.nodes[i].parent
	for range maxTwins {
		if p < 0 || a.nodes[p].class == classModel {
			break
		}
		p = a.nodes[p].parent
	}
	return p >= 0
}

// within says whether span i lies below span around.
func (a *analysis) within(i, around int32) bool {
	for p := a.nodes[i].parent; p >= 0; p = a.nodes[p].parent {
		if p == around {
			return true
		}
	}
	return false
}

// twins says whether span j, which began no earlier than i, tells of the same call: written
// by another instrumentation of the same process, of one model, with one outcome, and with
// about the same start and end, one inside the other.
func (a *analysis) twins(i, j int32) (twin, bool) {
	if a.nodes[j].end > a.nodes[i].end && a.nodes[j].start <= a.nodes[i].start+skewTolerance {
		i, j = j, i
	}
	x, y := &a.nodes[i], &a.nodes[j]
	if x.Scope == "" || y.Scope == "" || x.Scope == y.Scope || y.ParentID == "" || *x.resource() != *y.resource() ||
		(x.kind == "embeddings") != (y.kind == "embeddings") || x.failed() != y.failed() ||
		y.start < x.start-skewTolerance || y.end > x.end+skewTolerance {
		return twin{}, false
	}
	in, inDiffer := sameCount(x, y, slotInputTokens)
	out, outDiffer := sameCount(x, y, slotOutputTokens)
	if inDiffer || outDiffer {
		return twin{}, false
	}
	slack := twinSlack
	if in && out {
		slack = provenSlack
	} else if !oneModel(x, y) {
		return twin{}, false
	}
	slack = min(slack, (y.end-y.start)/twinShare)
	early, late := max(y.start-x.start, 0), max(x.end-y.end, 0)
	return twin{i, j, early + late}, early <= slack && late <= slack
}

// sameCount says whether both spans state a count above zero and it is the same, or differs.
func sameCount(x, y *node, s slot) (same, differ bool) {
	v, vk := x.f.num(s)
	w, wk := y.f.num(s)
	if !vk || !wk {
		return false, false
	}
	return v == w && v > 0, v != w
}

// oneModel says whether both spans name the same model: some leave out the provider before
// it, or the date behind it.
func oneModel(x, y *node) bool {
	for _, v := range [...]string{x.f.str(slotModel), x.f.str(slotResponseModel)} {
		for _, w := range [...]string{y.f.str(slotModel), y.f.str(slotResponseModel)} {
			if v, w = plainModel(v), plainModel(w); v != "" && (v == w || dated(v, w) || dated(w, v)) {
				return true
			}
		}
	}
	return false
}

func plainModel(s string) string { return s[strings.LastIndexByte(s, '/')+1:] }

// dated says whether long is the model short of some date.
func dated(long, short string) bool {
	rest, ok := strings.CutPrefix(long, short)
	return ok && short != "" && len(rest) > 4 && strings.IndexByte("-@:", rest[0]) >= 0 && rest[1] >= '0' && rest[1] <= '9'
}
