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
