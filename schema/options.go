package schema

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// DefaultDatabase is the database that driftline's tables live in unless told otherwise.
const DefaultDatabase = "driftline"

// Defaults of the paths that replicated tables use in Keeper. {shard} and {replica} are
// macros of the server's own configuration; {database} and {table} are filled in by it.
const (
	DefaultReplicaPath = "/clickhouse/tables/{shard}/{database}/{table}"
	DefaultReplicaName = "{replica}"
)

// Keys of TTLDays. Each names the retention of one table, or of all rollups of one tier.
const (
	TTLRequests     = "requests"
	TTLOperations   = "operations"
	TTLAttempts     = "attempts"
	TTLSegments     = "segments"
	TTLOpenRequests = "open_requests"
	TTLSpans        = "spans"
	TTLRollup1m     = "rollup_1m"
	TTLRollup1h     = "rollup_1h"
	TTLAlerts       = "alerts"
)

// maxTTLDays bounds retention so that event time + TTL stays inside DateTime's range.
const maxTTLDays = 20_000

var defaultTTLDays = map[string]int{
	TTLRequests:     30,
	TTLOperations:   30,
	TTLAttempts:     30,
	TTLSegments:     30,
	TTLOpenRequests: 3,
	TTLSpans:        7,
	TTLRollup1m:     14,
	TTLRollup1h:     400,
	TTLAlerts:       400,
}

// DefaultTTLDays returns a copy of the default retention per key, in days.
func DefaultTTLDays() map[string]int { return maps.Clone(defaultTTLDays) }

// TTLKeys lists the keys of Options.TTLDays in alphabetical order.
func TTLKeys() []string { return slices.Sorted(maps.Keys(defaultTTLDays)) }

// Options say where the tables live and what engine and retention they have. The zero
// value is one node, database "driftline", default retention.
type Options struct {
	// Database holds all objects; empty is DefaultDatabase.
	Database string
	// Cluster is the cluster's name in the server's configuration. Empty is one node:
	// plain tables and no Distributed tables.
	Cluster string
	// ReplicaPath and ReplicaName are the arguments of Replicated engines on a cluster;
	// empty is DefaultReplicaPath and DefaultReplicaName. ReplicaPath must differ by
	// table, so it holds {table} or {uuid}.
	ReplicaPath string
	ReplicaName string
	// TTLDays overrides the default retention by key, in days.
	TTLDays map[string]int
	// AppliedBy is recorded with each applied step, as "who migrated": a host name, a
	// version. It is text only.
	AppliedBy string
	// last is the newest version that the tables are to have; 0 is Version.
	last uint32
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// clusterName allows what cluster names in server configurations hold; the name is quoted
// when it is rendered.
var clusterName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// withDefaults fills empty fields.
func (o Options) withDefaults() Options {
	if o.Database == "" {
		o.Database = DefaultDatabase
	}
	if o.ReplicaPath == "" {
		o.ReplicaPath = DefaultReplicaPath
	}
	if o.ReplicaName == "" {
		o.ReplicaName = DefaultReplicaName
	}
	ttl := DefaultTTLDays()
	maps.Copy(ttl, o.TTLDays)
	o.TTLDays = ttl
	return o
}

// Validate reports everything that is wrong with o at once, each with its key.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	switch {
	case identifier.MatchString(o.Database):
	case strings.ContainsAny(o.Database, "@:"):
		// It may be the rest of a DSN that a bare '/' in the password cut, so it is not shown.
		errs = append(errs, errors.New("database: the name holds '@' or ':' and is not shown, as it may be part of a password: use letters, digits and underscores, at most 64; in a DSN the password must be URL-encoded ('/' as %2F)"))
	default:
		errs = append(errs, fmt.Errorf("database: %q is not a plain identifier: use letters, digits and underscores, at most 64", o.Database))
	}
	if o.Cluster != "" && !clusterName.MatchString(o.Cluster) {
		errs = append(errs, fmt.Errorf("cluster: %q is not a cluster name: use letters, digits, '_', '-' and '.'", o.Cluster))
	}
	if o.Cluster != "" && !strings.Contains(o.ReplicaPath, "{table}") && !strings.Contains(o.ReplicaPath, "{uuid}") {
		errs = append(errs, fmt.Errorf("replica_path: %q is the same for every table: it must hold {table} or {uuid}", o.ReplicaPath))
	}
	for _, key := range slices.Sorted(maps.Keys(o.TTLDays)) {
		days := o.TTLDays[key]
		if _, known := defaultTTLDays[key]; !known {
			errs = append(errs, fmt.Errorf("ttl_days.%s: no table has this retention: want one of %v", key, TTLKeys()))
			continue
		}
		if days < 1 || days > maxTTLDays {
			errs = append(errs, fmt.Errorf("ttl_days.%s: %d days is outside 1..%d", key, days, maxTTLDays))
		}
	}
	return errors.Join(errs...)
}
