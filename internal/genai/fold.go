package genai

import (
	"driftline/internal/rows"
)

// fold decides which spans are operations of their own. Instrumentations nest: a
// framework's span wraps the SDK's span of the same call. Where everything of an
// operation class below a model span is one call, that span absorbs it; where there are
// several calls, or tools beside them, it is an agent. Only leaf inference counts.
func (a *analysis) fold() {
	a.demoteWrappers()
	a.sub = take(&a.room.sub, len(a.nodes))
	for _, i := range a.order {
		n := &a.nodes[i]
		if n.parent < 0 {
			continue
		}
		p := &a.nodes[n.parent]
		n.opParent = p.opParent
		if p.class.operation() {
			n.opParent = n.parent
		}
		if n.class.operation() && n.opParent >= 0 {
			switch a.nodes[n.opParent].class {
			case classModel, classTool, classRetrieval:
				a.sub[n.opParent] = append(a.sub[n.opParent], i)
			}
		}
	}
	for k := len(a.order) - 1; k >= 0; k-- {
		i := a.order[k]
		if len(a.sub[i]) > 0 {
			a.foldInto(i)
		}
	}
	a.sub = nil
}

// demoteWrappers makes a span structure where one below it says the same more exactly:
// Claude Code's tool span includes waiting for the user, its execution does not.
func (a *analysis) demoteWrappers() {
	for i := range a.nodes {
		n := &a.nodes[i]
		if n.parent >= 0 && n.rule != nil && n.rule.replaces != "" {
			p := &a.nodes[n.parent]
			if p.Name == n.rule.replaces {
				p.class, p.kind = classPlain, ""
				if !n.f.has(slotTool) {
					n.f.set(slotTool, &p.f)
				}
			}
		}
	}
}

func (a *analysis) foldInto(i int32) {
	n := &a.nodes[i]
	sub := a.sub[i]
	sortByStart(sub)
	var same, other []int32
	for _, k := range sub {
		if a.sameCall(n, &a.nodes[k]) {
			same = append(same, k)
		} else {
			other = append(other, k)
		}
	}
	if len(same) == 0 {
		return
	}
	busy := false
	for _, k := range other {
		busy = busy || a.nodes[k].end > a.nodes[k].start
	}
	if n.class != classModel {
		busy = false // a tool may call models and other tools besides
	}
	heads := a.chain(same, i)
	if heads > 1 || busy {
		for _, k := range same {
			a.nodes[k].next, a.nodes[k].prev = -1, -1
		}
		if n.class == classModel {
			n.class, n.kind = classAgent, rows.KindAgent
		}
		return
	}
	for _, k := range same {
		a.nodes[k].absorbed = i
	}
}

// sameCall says whether inner may be the same call as the span around it.
func (a *analysis) sameCall(outer, inner *node) bool {
	if outer.class != inner.class {
		return false
	}
	switch outer.class {
	case classModel:
		return (outer.kind == rows.KindEmbeddings) == (inner.kind == rows.KindEmbeddings)
	case classTool:
		return outer.target() == inner.target() || outer.target() == "" || inner.target() == ""
	}
	return outer.target() == inner.target()
}

// target is the model asked for, or the tool's or agent's name.
func (n *node) target() string {
	switch n.class {
	case classModel:
		return n.f.str(slotModel)
	case classTool:
		if s := n.f.str(slotTool); s != "" {
			return s
		}
		return subject(n.Name, n.set.tools)
	case classAgent:
		return n.agentName()
	}
	if s := n.f.str(slotModel); s != "" {
		return s
	}
	return n.Name
}

// agentName is the name of an agent or workflow span.
func (n *node) agentName() string {
	slots := [...]slot{slotAgent, slotWorkflow, slotTool}
	if n.kind == rows.KindWorkflow {
		slots = [...]slot{slotWorkflow, slotAgent, slotTool}
	}
	for _, s := range slots {
		if name := n.f.str(s); name != "" {
			return name
		}
	}
	return subject(n.Name, n.set.agents)
}

// subject is what a span's name says of the tool or agent, else the whole name.
func subject(name string, patterns []glob) string {
	for i := range patterns {
		if rest, ok := patterns[i].rest(name); ok {
			return rest
		}
	}
	return name
}
