package assemble

import (
	"strings"
	"time"

	"driftline/internal/rows"
)

// agents remembers which agent does which work, to name the agent of operations whose
// request is still open: agent and root spans end last, so until then the trace itself
// does not say. Only work that one agent alone has done is named; the release of the
// whole request puts in what its spans say.
type agents struct {
	max    int
	byWork map[work]*doer
	swept  time.Time
}

// workPerLabel bounds the remembered work at so many times the values of one label.
const workPerLabel = 4

type work struct{ service, kind, target string }

type doer struct {
	agent string
	// several says that more than one agent does this work, so nothing can be told.
	several bool
	seen    time.Time
}

func newAgents(limit int) *agents {
	return &agents{max: limit, byWork: map[work]*doer{}}
}

// learn takes in operations of a complete trace.
func (a *agents) learn(operations []*rows.Operation, now time.Time) {
	for _, o := range operations {
		if o.Agent == "" || o.Agent == Other || o.Incomplete {
			continue
		}
		w := work{o.ServiceName, o.Kind, o.Target}
		d := a.byWork[w]
		if d == nil {
			if !a.room(now) {
				continue
			}
			w = work{strings.Clone(w.service), strings.Clone(w.kind), strings.Clone(w.target)}
			d = &doer{agent: strings.Clone(o.Agent)}
			a.byWork[w] = d
		}
		d.several = d.several || d.agent != o.Agent
		d.seen = now
	}
}

// name fills in the agent of rows whose trace does not say it yet.
func (a *agents) name(operations []*rows.Operation, attempts []*rows.Attempt) {
	for _, o := range operations {
		a.fill(&o.Agent, work{o.ServiceName, o.Kind, o.Target})
	}
	for _, t := range attempts {
		a.fill(&t.Agent, work{t.ServiceName, t.Kind, t.Target})
	}
}

func (a *agents) fill(agent *string, w work) {
	if *agent != "" {
		return
	}
	if d := a.byWork[w]; d != nil && !d.several {
		*agent = d.agent
	}
}

// room makes place for one more by forgetting what was not seen for long.
func (a *agents) room(now time.Time) bool {
	if len(a.byWork) < a.max {
		return true
	}
	if now.Sub(a.swept) < labelSweep {
		return false
	}
	a.swept = now
	for w, d := range a.byWork {
		if now.Sub(d.seen) >= labelIdle {
			delete(a.byWork, w)
		}
	}
	return len(a.byWork) < a.max
}

// bytes is about what the memory of work takes.
func (a *agents) bytes() int64 { return int64(len(a.byWork) * 3 * bytesPerLabel) }
