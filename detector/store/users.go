package store

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// Users says whom the requests of a window were for, as far as they state it.
type Users struct {
	// Requests counts the agent's requests that ended in the window.
	Requests uint64
	// Users and Tenants are of those that state one.
	Users, Tenants Affected
}

// Affected counts users, or tenants, by the keyed hashes that requests carry.
type Affected struct {
	// Stated counts the requests that say whom they were for.
	Stated uint64
	// All counts those whom they were for, Hit those with a request that shows the finding.
	All, Hit uint64
}

// UsersHit reads it of a slice's agent for [from, to). What shows the finding is as in
// Coverage: a request with work in the slice that does.
func (s *Store) UsersHit(ctx context.Context, slice Slice, from, to time.Time, order ExampleOrder, aboveNS int64) (Users, error) {
	where, args := slice.where()
	hit := "ifNull(kind = @kind AND " + order.found() + ", false)"
	if !slice.IsRequest() {
		// GLOBAL, since both tables are distributed on a cluster.
		hit = "(trace_id, request_id) GLOBAL IN (SELECT trace_id, request_id FROM " + s.db + ".operations WHERE " + where + " AND " + endedBetween + " AND NOT late_fragment AND " + order.found() + ")"
	}
	sql := "SELECT count(), count(user_hash), uniqExact(user_hash), uniqExactIf(user_hash, hit), count(tenant_hash), uniqExact(tenant_hash), uniqExactIf(tenant_hash, hit) FROM (" +
		"SELECT user_hash, tenant_hash, " + hit + " AS hit FROM " + s.db + ".requests WHERE service_name = @service AND agent = @agent AND " + endedBetween + " AND NOT late_fragment)"
	args = append(append(args, between(from, to)...), clickhouse.Named("above", aboveNS))
	got, err := query(ctx, s, "whom a window's requests were for", sql, args, func(u *Users) []any {
		return []any{&u.Requests, &u.Users.Stated, &u.Users.All, &u.Users.Hit, &u.Tenants.Stated, &u.Tenants.All, &u.Tenants.Hit}
	}, nil)
	if err != nil || len(got) == 0 {
		return Users{}, err
	}
	return got[0], nil
}
