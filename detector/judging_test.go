package detector

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWorkOfNoKnownAgentIsNotJudged(t *testing.T) {
	known := Slice{Service: "shop", Agent: "checkout", Kind: "tool", Target: "stock", Stream: "no"}
	open := known
	open.Agent = ""
	require.Equal(t, []Slice{known}, settled([]Slice{open, known}))
}

func TestLabelNamesAreAllThatAlertsHave(t *testing.T) {
	all := labels(P95Spread, "warning", Slice{Service: "s", Agent: "a", Kind: "k", Target: "t", Stream: "yes"})
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	require.ElementsMatch(t, LabelNames, names)
}
