package ui

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// C12: one retry was configured, six requests were made.
func TestC12TheTracePageNamesMoreTriesThanConfigured(t *testing.T) {
	for _, c := range []struct {
		attempts, leaves, retries *uint32
		want                      string
	}{
		{ptr(uint32(6)), ptr(uint32(6)), ptr(uint32(1)), "; 6 made, 2 configured"},
		{ptr(uint32(3)), ptr(uint32(45)), ptr(uint32(2)), "; 45 made, 3 configured"},
		{ptr(uint32(6)), nil, ptr(uint32(1)), "; 6 made, 2 configured"},
		{ptr(uint32(2)), ptr(uint32(2)), ptr(uint32(1)), ""},
		{ptr(uint32(6)), ptr(uint32(6)), nil, ""},
		{nil, nil, ptr(uint32(0)), ""},
		{ptr(uint32(1)), ptr(uint32(1)), ptr(^uint32(0)), ""},
	} {
		require.Equal(t, c.want, moreThanConfigured(Operation{Attempts: c.attempts, LeafAttempts: c.leaves, MaxRetries: c.retries}))
	}
}
