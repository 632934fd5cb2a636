package golden

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/internal/identity"
	"driftline/internal/rows"
	"driftline/processor/genaisegment"
)

// TestUsersAndTenantsAreStoredAsHashesOnly follows them from spans through processor and
// exporter into the tables.
func TestUsersAndTenantsAreStoredAsHashesOnly(t *testing.T) {
	const key = "0123456789abcdef"
	s := newStorage(t, t0.Add(10*time.Hour))
	s.runs++
	r := newRigWith(t, s, t0.Add(time.Hour), func(c *genaisegment.Config) { c.IdentityKey = key })
	who := func(i int) (user, tenant string) {
		return fmt.Sprintf("canary-user-%d", i%3), fmt.Sprintf("canary-tenant-%d", i%2)
	}
	r.clock.Advance(10 * time.Second)
	for i := range 6 {
		b := newTrace(byte(i + 1))
		user, tenant := who(i)
		b.agent(1, 0, 0, 9, attrs{"tenant.id": tenant, "litellm.team.id": tenant})
		b.chat(2, 1, 1, 8, attrs{"user.id": user, "enduser.id": user, "langfuse.user.id": user})
		r.consume(b.td)
	}
	nobody := newTrace(7)
	nobody.agent(1, 0, 0, 9, nil)
	nobody.chat(2, 1, 1, 8, nil)
	r.consume(nobody.td)
	r.clock.Advance(settle)
	r.store()

	hasher, err := identity.New(key)
	require.NoError(t, err)
	known := 0
	for _, row := range s.view(t, rows.TableRequests) {
		q := row.(*rows.Request)
		var trace int
		_, err := fmt.Sscanf(q.TraceID[30:], "%x", &trace)
		require.NoError(t, err)
		if trace == 7 {
			require.Nil(t, q.UserHash, "unknown is not zero")
			require.Nil(t, q.TenantHash)
			continue
		}
		user, tenant := who(trace - 1)
		wantUser, _ := hasher.Hash(identity.User, user)
		wantTenant, _ := hasher.Hash(identity.Tenant, tenant)
		require.Equal(t, []int64{wantUser, wantTenant}, []int64{*q.UserHash, *q.TenantHash})
		known++
	}
	require.Equal(t, 6, known)

	// The spans keep what they had; no column of any table has it.
	kept := 0
	for _, td := range r.sent {
		text, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
		require.NoError(t, err)
		kept += strings.Count(string(text), "canary-user")
	}
	require.NotZero(t, kept)
	tables := s.records(t, "SELECT name FROM system.tables WHERE database = '"+s.db+"' AND engine LIKE '%MergeTree'")
	require.NotEmpty(t, tables)
	read := uint64(0)
	for _, table := range tables {
		var n, held uint64
		require.NoError(t, s.conn.QueryRow(t.Context(), fmt.Sprintf("SELECT count(), countIf(position(toString(tuple(*)), 'canary') > 0) FROM %s.%s", s.db, table["name"])).Scan(&n, &held))
		require.Zero(t, held, "%v holds a name", table["name"])
		read += n
	}
	require.Greater(t, read, uint64(20))
}
