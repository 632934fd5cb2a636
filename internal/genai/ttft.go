package genai

import (
	"strings"
	"time"

	"driftline/internal/rows"
)

// tokenTimes is what is known of an operation's tokens in time.
type tokenTimes struct {
	stream   string
	state    string
	conflict bool
	// firstAt is the instant of the first generated token; -1 unless state is known.
	firstAt int64
	// from is where the last attempt began.
	from       int64
	ttft       *int64
	firstChunk *int64
	visible    *int64
	perToken   *int64
}

const (
	// minTTFT is the shortest believable time to a first token from any model.
	minTTFT = ms
	// minPerToken is the shortest believable time per output token: a stream that is
	// faster was buffered, and its first token is not the model's.
	minPerToken = 100_000
	// manyTokens is from where a rate is judged.
	manyTokens = 50
	// agreeWithin is how far two sources of one instant may differ.
	agreeWithin = 50 * ms
)

// lastStart is where the innermost last attempt began.
func (o *op) lastStart() int64 {
	at := o.start
	level := o.top
	for len(level) > 0 {
		t := &o.tries[level[len(level)-1]]
		if len(level) > 1 || t.ordinal > 1 {
			at = t.start
		}
		level = t.kids
	}
	return at
}

// lastTry is the innermost last attempt, nil without any.
func (o *op) lastTry() *try {
	var t *try
	level := o.top
	for len(level) > 0 {
		t = &o.tries[level[len(level)-1]]
		level = t.kids
	}
	return t
}

// readTokenTimes finds the first token of o among attributes and events of its last
// span and of the spans that one absorbed.
func (a *analysis) readTokenTimes(o *op) {
	tt := &o.tok
	tt.state, tt.stream, tt.firstAt, tt.from = rows.TTFTNotApplicable, rows.StreamUnknown, -1, o.lastStart()
	n := &a.nodes[o.lastMember()]
	if n.class != classModel || n.kind == rows.KindEmbeddings {
		tt.stream = rows.StreamNo // not unknown: such work has no stream of tokens
		return
	}
	sources := o.sources
	tt.stream = streamFlag(sources)
	said, server, flagged := a.statedFirst(o, sources)
	ev := firstEvents(sources, tt.from, o.end)
	at := ev.first
	switch {
	case at < 0:
		at = said
	case said >= 0:
		roleOnly := ev.role >= 0 && said < at-agreeWithin && said <= ev.role+agreeWithin
		if diff := max(at-said, said-at); diff > max(agreeWithin, (min(at, said)-tt.from)/10) {
			tt.conflict = true
		}
		if said < at && !roleOnly && said-tt.from >= minTTFT {
			at = said
		}
	}
	if ev.visible >= 0 {
		tt.visible = a.num(ev.visible - tt.from)
	}
	if at < 0 && ev.visible < 0 {
		switch {
		case ev.lost:
			tt.state = rows.TTFTSuspect
			tt.conflict = tt.stream == rows.StreamNo
			if !tt.conflict {
				tt.stream = rows.StreamYes
			}
		case tt.stream != rows.StreamNo:
			tt.state = rows.TTFTMissing
		}
		return
	}
	if tt.stream == rows.StreamNo {
		tt.conflict = true
		tt.state = rows.TTFTSuspect
		return
	}
	if tt.stream == rows.StreamUnknown && flagged && a.set.marks(n.f.seen) {
		tt.conflict = true // this dialect marks streamed calls, and did not
	}
	tt.stream = rows.StreamYes
	visible := visibleTokens(&n.f)
	if !plausible(at-tt.from, o.end-tt.from, visible, server && at > o.end) {
		tt.state = rows.TTFTSuspect
		return
	}
	tt.state = rows.TTFTKnown
	tt.firstAt = min(at, max(o.end, tt.from))
	ttft, chunk := at-tt.from, at-o.start
	if !server {
		ttft, chunk = tt.firstAt-tt.from, tt.firstAt-o.start
	}
	tt.ttft, tt.firstChunk = a.num(ttft), a.num(chunk)
	if visible >= 2 && o.end > tt.firstAt {
		tt.perToken = a.num((o.end - tt.firstAt) / (visible - 1))
	}
}

// plausible says whether a first token after ttft in an attempt of length dur that gave
// so many tokens (-1 for unknown) can be true.
func plausible(ttft, dur, tokens int64, outlived bool) bool {
	switch {
	case ttft < minTTFT:
		return false
	case outlived:
		return true // the server went on after its caller had given up
	case ttft > dur+max(5*ms, dur/100):
		return false
	case dur-ttft <= max(2*ms, dur/1000) && tokens != 0 && tokens != 1:
		return false // the instrumentation wrote the total
	case tokens >= manyTokens && (dur-ttft)/(tokens-1) < minPerToken:
		return false
	}
	return true
}

// visibleTokens is the output without reasoning, which may come before the first
// chunk; -1 when not reported.
func visibleTokens(f *facts) int64 {
	out, ok := f.num(slotOutputTokens)
	if !ok {
		return -1
	}
	if r, ok := f.num(slotReasoningTokens); ok && r < out {
		out -= r
	}
	return out
}

func streamFlag(sources []*node) string {
	flag := rows.StreamUnknown
	for _, n := range sources {
		if v := n.f.val(slotStream); v != nil {
			if b, ok := v.AsBool(); ok && b {
				return rows.StreamYes
			} else if ok {
				flag = rows.StreamNo
			}
		}
		if n.rule != nil && n.rule.streamed == rows.StreamYes {
			return rows.StreamYes
		} else if n.rule != nil && n.rule.streamed == rows.StreamNo {
			flag = rows.StreamNo
		}
	}
	return flag
}

// statedFirst is the instant that an attribute gives for the first token, -1 for none,
// whether a server's span said it, and whether it was the standard attribute, whose
// dialect also flags streams.
func (a *analysis) statedFirst(o *op, sources []*node) (at int64, server, flagged bool) {
	at = -1
	for _, n := range sources {
		x := int64(-1)
		if s := strings.Trim(n.f.str(slotTTFTInstant), `"`); s != "" {
			if t, err := time.Parse(time.RFC3339Nano, s); err == nil && t.Year() > 1970 && t.Year() < 2116 {
				x = t.UnixNano()
			}
		} else if d, ok := n.f.dur(slotTTFT); ok {
			x = a.placeFirst(o, n, d)
		}
		if x >= 0 && at < 0 {
			at, server = x, n.Kind == KindServer && n.end >= x
			if n.f.has(slotTTFT) {
				flagged = n.f.rank(slotTTFT) == 0
			}
		}
	}
	return at, server, flagged
}

// placeFirst turns a time to first token into an instant. Some count from the start of
// the call and some from the start of the attempt: a first token cannot come before the
// last attempt began, nor after the end, nor before the answer's headers.
func (a *analysis) placeFirst(o *op, n *node, d int64) int64 {
	base := min(max(n.start, o.start), o.end)
	from := o.tok.from
	d = max(d, -base)
	byCall, byAttempt := min(base+d, maxTime), min(from+d, maxTime)
	if from <= base {
		return byCall
	}
	headers := from
	if t := o.lastTry(); t != nil && t.node >= 0 && a.nodes[t.node].class == classHTTPClient {
		headers = min(a.nodes[t.node].end, o.end)
	}
	slack := 5 * ms
	callFits := byCall >= headers-slack && byCall <= o.end+slack
	attemptFits := byAttempt >= headers-slack && byAttempt <= o.end+slack
	perAttempt := n.f.seen&a.set.perAttempt != 0
	switch {
	case attemptFits && (perAttempt || !callFits):
		return byAttempt
	case callFits:
		return byCall
	case byCall < from && byAttempt <= o.end+slack:
		return byAttempt
	}
	return byCall
}

// firstMarks are instants, -1 for none. lost says that chunks were seen of which the first
// may have been dropped.
type firstMarks struct {
	first, visible, role int64
	lost                 bool
}

// firstEvents finds the first token of any kind, the first one a user can see, and the
// first frame that carries none, within [from, to].
func firstEvents(sources []*node, from, to int64) firstMarks {
	m := firstMarks{first: -1, visible: -1, role: -1}
	for _, n := range sources {
		s := n.firstEvents(from, to)
		if s.first >= 0 && n.EventsDropped && n.lostBefore(s.first) {
			m.lost = true
			continue
		}
		earlier(&m.first, s.first)
		earlier(&m.visible, s.visible)
		earlier(&m.role, s.role)
	}
	return m
}

// earlier sets have to t if that is known and comes first.
func earlier(have *int64, t int64) {
	if t >= 0 && (*have < 0 || t < *have) {
		*have = t
	}
}

func (n *node) firstEvents(from, to int64) firstMarks {
	m := firstMarks{first: -1, visible: -1, role: -1}
	for i := range n.Events {
		e := &n.Events[i]
		if e.Time < from || e.Time > to {
			continue
		}
		switch n.set.chunkKind(e) {
		case chunkRole:
			earlier(&m.role, e.Time)
		case chunkAny, chunkHidden:
			earlier(&m.first, e.Time)
		case chunkVisible:
			earlier(&m.first, e.Time)
			earlier(&m.visible, e.Time)
		}
	}
	return m
}

// lostBefore says whether events of the span may be missing before the chunk at t: SDKs
// that keep a number of events drop the oldest, so all are there from the oldest one
// kept. An event that is by its name the first token's needs no others.
func (n *node) lostBefore(t int64) bool {
	for i := range n.Events {
		e := &n.Events[i]
		if e.Time < t || e.Time == t && strings.Contains(strings.ToLower(e.Name), "first") {
			return false
		}
	}
	return true
}

type chunk uint8

const (
	chunkNone chunk = iota
	chunkRole
	chunkAny
	chunkHidden // reasoning and tool calls
	chunkVisible
	// No chunks:
	chunkRetry   // a try failed, and the next one follows
	chunkAttempt // one try
)

// chunkKind tells what a span event says about a stream. What a dialect says of the
// event's name goes first; a chunk's own type is more exact.
func (d *Dialects) chunkKind(e *Event) chunk {
	says, known := d.eventSays(e.Name)
	if known && says != chunkAny {
		return says
	}
	name := strings.ToLower(e.Name)
	typed := ""
	for i := range e.Attrs {
		if k, ok := d.keys[e.Attrs[i].Key]; ok && k.slot == slotChunkType {
			s, _ := e.Attrs[i].Value.AsString()
			typed = strings.ToLower(s)
		}
	}
	stream := known || strings.Contains(name, "chunk") || strings.Contains(name, "delta") || strings.Contains(name, "first_token") ||
		strings.Contains(name, "stream") || strings.Contains(name, "first token")
	if typed == "" && known {
		return chunkAny
	}
	if typed == "" && stream {
		typed = name
	}
	if typed == "" {
		switch name {
		case "role", "reasoning", "thinking", "content", "text", "tool_call", "tool-call":
			typed = name
		default:
			return chunkNone
		}
	}
	switch {
	case strings.Contains(typed, "role"), strings.Contains(typed, "message_start"), strings.Contains(typed, "empty"), strings.Contains(typed, "finish"), strings.Contains(typed, "usage"):
		return chunkRole
	case strings.Contains(typed, "reasoning"), strings.Contains(typed, "thinking"), strings.Contains(typed, "tool"):
		return chunkHidden
	case strings.Contains(typed, "content"), strings.Contains(typed, "text"):
		return chunkVisible
	case stream:
		return chunkAny
	}
	return chunkNone
}
