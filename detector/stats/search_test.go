package stats

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSearchNearFindsTheFirst(t *testing.T) {
	for end := range int64(40) {
		for want := range end + 1 {
			for guess := int64(-5); guess < end+5; guess++ {
				require.Equal(t, want, searchNear(guess, end, func(k int64) bool { return k >= want }), "end %d guess %d", end, guess)
			}
		}
	}
}
