package assemble

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/internal/rows"
)

func operation(agent, kind, target string) *rows.Operation {
	return &rows.Operation{Common: rows.Common{ServiceName: "svc"}, Facts: rows.Facts{Agent: agent, Kind: kind}, Target: target}
}

func TestAgentOfOpenWorkIsTheOnlyOneThatDoesIt(t *testing.T) {
	a := newAgents(10)
	open := func(kind, target string) string {
		o := operation("", kind, target)
		try := &rows.Attempt{Common: o.Common, Facts: o.Facts, Target: target}
		a.name([]*rows.Operation{o}, []*rows.Attempt{try})
		require.Equal(t, o.Agent, try.Agent)
		return o.Agent
	}
	require.Empty(t, open("chat", "m1"), "nothing was learnt yet")
	a.learn([]*rows.Operation{operation("checkout", "chat", "m1"), operation("checkout", "tool", "search")}, at(0))
	require.Equal(t, "checkout", open("chat", "m1"))
	require.Empty(t, open("chat", "m2"))
	a.learn([]*rows.Operation{operation("refund", "chat", "m1")}, at(time.Second))
	require.Empty(t, open("chat", "m1"), "two agents use this model")
	require.Equal(t, "checkout", open("tool", "search"))

	stated := operation("stated", "tool", "search")
	a.name([]*rows.Operation{stated}, nil)
	require.Equal(t, "stated", stated.Agent)
}

func TestRememberedWorkIsBounded(t *testing.T) {
	a := newAgents(2)
	a.learn([]*rows.Operation{operation("x", "tool", "1"), operation("x", "tool", "2"), operation("x", "tool", "3")}, at(0))
	require.Len(t, a.byWork, 2)
	a.learn([]*rows.Operation{operation("x", "tool", "2")}, at(50*time.Minute))
	a.learn([]*rows.Operation{operation("x", "tool", "3")}, at(61*time.Minute))
	require.Len(t, a.byWork, 2)
	require.NotContains(t, a.byWork, work{"svc", "tool", "1"}, "idle for an hour")
}
