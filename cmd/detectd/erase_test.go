package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/dettest"
	"driftline/internal/engine/enginetest"
	"driftline/internal/identity"
	"driftline/internal/rows"
)

const testKey = "0123456789abcdef-hunter2"

func TestEraseSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name, key, stdin string
		args             []string
		says             []string
	}{
		{name: "neither", key: testKey, says: []string{"give either --user or --tenant"}},
		{name: "both", key: testKey, args: []string{"--user", "a", "--tenant", "b"}, says: []string{"give either --user or --tenant"}},
		{name: "no key", args: []string{"--user", "secret-alice"}, says: []string{"no key: set DRIFTLINE_IDENTITY_KEY to the identity_key of the collectors"}},
		{name: "a short key", key: "hunter2", args: []string{"--user", "secret-alice"}, says: []string{"the key in DRIFTLINE_IDENTITY_KEY has 7 bytes"}},
		{name: "no id", key: testKey, args: []string{"--tenant", " "}, says: []string{"--tenant: the id names nobody"}},
		{name: "a word for nothing from standard input", key: testKey, args: []string{"--user", "-"}, stdin: "null\n", says: []string{"--user: the id names nobody"}},
		{name: "several", key: testKey, args: []string{"--user", "-"}, stdin: "alice\nbob\n", says: []string{"--user: one id at a time"}},
		{name: "all", args: []string{"--user", "x", "--output", "xml", "--cluster", "a b"}, says: []string{"no key", "--output", "cluster:"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(identity.EnvKey, c.key)
			stdout, _, err := run(t, c.stdin, append([]string{"erase", "--clickhouse", "http://127.0.0.1:1/driftline"}, c.args...)...)
			var wrong usageError
			require.ErrorAs(t, err, &wrong)
			require.Empty(t, stdout)
			for _, want := range c.says {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), "hunter2")
			require.NotContains(t, err.Error(), "alice")
		})
	}
}

func TestEraseOnTheRealStore(t *testing.T) {
	conn, db := dettest.DB(t)
	e := enginetest.Shared(t)
	hasher, err := identity.New(testKey)
	require.NoError(t, err)
	now := time.Now().UTC()
	for i, id := range []string{"alice", "bob", "alice"} {
		hash, _ := hasher.Hash(identity.User, id)
		r := &rows.Request{RequestID: "r", ReleaseReason: rows.ReleaseRoot, UserHash: &hash}
		r.ServiceName, r.TraceID, r.Revision, r.Kind, r.Outcome, r.EndedAt = "shop", string(rune('a'+i)), 1, rows.KindAgent, rows.OutcomeOK, now.UnixNano()-int64(time.Hour)
		require.NoError(t, dettest.Insert(t.Context(), conn, db, now, r))
	}
	left := func() (n uint64) {
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT count() FROM "+db+".requests").Scan(&n))
		return n
	}
	t.Setenv(identity.EnvKey, testKey+"\n") // as read from a file
	erase := func(args ...string) string {
		stdout, stderr, err := run(t, "alice\n", append([]string{"erase", "--clickhouse", e.DSNFor(db)}, args...)...)
		require.NoError(t, err)
		require.NotContains(t, stdout+stderr, "alice")
		require.NotContains(t, stdout+stderr, "hunter2")
		return stdout
	}
	text := erase("--user", "alice", "--dry-run")
	require.Contains(t, text, "2 requests of this user and 0 of nobody, in 2 traces, would be erased")
	require.Regexp(t, `requests_base +2 +2`, text)
	require.EqualValues(t, 3, left())

	text = erase("--user", "-")
	require.Contains(t, text, "2 requests of this user and 0 of nobody, in 2 traces, erased")
	require.Regexp(t, `requests_base +2 +0`, text)
	for _, what := range stays {
		require.Contains(t, text, what)
	}
	require.EqualValues(t, 1, left())

	require.Equal(t, "nothing is stored of this user under this key\n", erase("--user", "alice"))
	require.Equal(t, "nothing is stored of this tenant under this key\n", erase("--tenant", "bob"))
	var report struct {
		Kind     string `json:"kind"`
		DryRun   bool   `json:"dry_run"`
		Requests int    `json:"requests"`
		Tables   []struct {
			Table      string `json:"table"`
			Rows, Left int
		} `json:"tables"`
		Stays []string `json:"stays"`
	}
	require.NoError(t, json.Unmarshal([]byte(erase("--user", "bob", "--dry-run", "-o", "json")), &report))
	require.Equal(t, "user", report.Kind)
	require.True(t, report.DryRun)
	require.Equal(t, 1, report.Requests)
	require.Len(t, report.Tables, 6)
	require.Equal(t, stays, report.Stays)
	require.EqualValues(t, 1, left())
}
