package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/dettest"
	"driftline/detector/store"
	"driftline/internal/rows"
)

func TestUsersHitCountsThoseWhoAreStated(t *testing.T) {
	ctx := context.Background()
	conn, db := dettest.DB(t)
	st, err := store.New(conn, db)
	require.NoError(t, err)
	start := time.Now().UTC().Truncate(time.Minute).Add(-30 * time.Minute)
	request := func(i int, service string) (*rows.Request, *rows.Operation) {
		end := start.Add(time.Duration(i) * 6 * time.Second).UnixNano()
		c := rows.Common{ServiceName: service, TraceID: fmt.Sprintf("%s%03d", service, i), Revision: 1}
		f := rows.Facts{Agent: "planner", Kind: rows.KindTool, Outcome: rows.OutcomeOK, StartedAt: end - 2e9, EndedAt: end, SampleWeight: 1}
		o := &rows.Operation{Common: c, Facts: f, OperationID: "o", RequestID: "r", Target: "search", Stream: rows.StreamNo}
		o.UserTimeNS = 1e9
		f.Kind = rows.KindAgent
		r := &rows.Request{Common: c, Facts: f, RequestID: "r", ReleaseReason: rows.ReleaseRoot}
		return r, o
	}
	var all []rows.Row
	for i := range 100 { // ten users of two requests and one tenant in five; every other request says none
		r, o := request(i, "shop")
		if i%2 == 0 {
			r.UserHash, r.TenantHash = ptr(int64(i/4)-5), ptr(int64(i/20))
		}
		if i%10 == 4 || i == 5 { // hidden time of requests that state somebody, and of one that does not
			o.HiddenTotalNS, r.HiddenTotalNS = ptr(int64(3e8)), ptr(int64(3e8))
		}
		if i == 8 {
			r.DriftNS = ptr(int64(1e9))
		}
		if i == 12 {
			o.TimeoutNS, o.UserTimeNS = ptr(int64(1e9)), 3e9
		}
		if i == 16 || i == 18 { // one user
			o.DeadlineMissed, o.MissCause, o.Outcome = ptr(true), rows.MissInherited, rows.OutcomeError
		}
		all = append(all, r, o)
		other, op := request(i, "other") // the same users elsewhere
		other.UserHash, op.HiddenTotalNS, other.HiddenTotalNS = ptr(int64(i)), ptr(int64(3e8)), ptr(int64(3e8))
		all = append(all, other, op)
	}
	late, _ := request(50, "shop")
	late.TraceID, late.LateFragment, late.UserHash = "late", true, ptr(int64(1e6))
	// A revision that says another user replaces the one before.
	was, _ := request(0, "shop")
	was.UserHash, was.Revision = ptr(int64(1e6)), 0
	require.NoError(t, dettest.Insert(ctx, conn, db, time.Now(), append(all, late, was)...))

	end := start.Add(10 * time.Minute)
	ops := store.Slice{Service: "shop", Agent: "planner", Kind: rows.KindTool, Target: "search", Stream: rows.StreamNo}
	reqs := store.Slice{Service: "shop", Agent: "planner", Kind: rows.KindAgent}
	who := func(users, tenants uint64) store.Users {
		return store.Users{Requests: 100, Users: store.Affected{Stated: 50, All: 25, Hit: users}, Tenants: store.Affected{Stated: 50, All: 5, Hit: tenants}}
	}
	for _, c := range []struct {
		name  string
		slice store.Slice
		order store.ExampleOrder
		above int64
		want  store.Users
	}{
		{"hidden time of calls", ops, store.ByHidden, 0, who(10, 5)},
		{"hidden time of requests", reqs, store.ByHidden, 0, who(10, 5)},
		{"drift of requests", reqs, store.ByDrift, 0, who(1, 1)},
		{"slow calls", ops, store.ByUserTime, 9e8, who(25, 5)},
		{"slower calls", ops, store.ByUserTime, 1e9, who(1, 1)},
		{"504", reqs, store.By504, 0, who(0, 0)},
		{"inherited misses", ops, store.ByInherited, 0, who(1, 1)},
		{"overruns", ops, store.ByOverrun, 0, who(1, 1)},
		{"another kind of request", store.Slice{Service: "shop", Agent: "planner", Kind: rows.KindChat}, store.ByHidden, 0, who(0, 0)},
		{"another agent", store.Slice{Service: "shop", Agent: "x", Kind: rows.KindAgent}, store.ByHidden, 0, store.Users{}},
	} {
		got, err := st.UsersHit(ctx, c.slice, start, end, c.order, c.above)
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, got, c.name)
		_, err = st.Coverage(ctx, c.slice, start, end, c.order, c.above)
		require.NoError(t, err, c.name)
	}
	half, err := st.UsersHit(ctx, ops, start, start.Add(5*time.Minute), store.ByHidden, 0)
	require.NoError(t, err)
	require.Equal(t, store.Users{Requests: 50, Users: store.Affected{Stated: 25, All: 13, Hit: 5}, Tenants: store.Affected{Stated: 25, All: 3, Hit: 3}}, half)
}
