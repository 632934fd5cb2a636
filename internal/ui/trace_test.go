package ui

import (
	"testing"
	"time"

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

// S6: an attempt that its timeout ended, one that was refused, and one that got what was left.
func TestS6TheTracePageSaysWhatEndedEachAttempt(t *testing.T) {
	try := func(n uint32, took, left time.Duration, class string, status uint16, capped bool) Attempt {
		return Attempt{ID: string(rune('a' + n)), OperationID: "o", Layer: "sdk", Ordinal: n, Duration: took, Remaining: &left, Outcome: "error", ErrorClass: class, HTTPStatus: status, AtCap: capped}
	}
	table := attemptTable(&Trace{Operations: []Operation{{ID: "o", Name: "chat m1"}}, Attempts: []Attempt{
		try(1, 30*time.Second, 52*time.Second, "timeout", 0, true),
		try(2, 900*time.Millisecond, 21500*time.Millisecond, "overload", 429, false),
		try(3, 19900*time.Millisecond, 19900*time.Millisecond, "timeout", 0, true),
	}})
	var got []string
	for _, r := range table.Rows {
		got = append(got, r[6].Text)
	}
	require.Equal(t, []string{"error: timeout, at its timeout", "error: overload, HTTP 429", "error: timeout, at its timeout: all that the deadline left"}, got)
}
