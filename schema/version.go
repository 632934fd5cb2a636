package schema

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"path"
)

//go:embed sql/*/*.sql
var files embed.FS

// Version is the newest schema version this binary knows, and the only one it works with.
const Version = 1

// object is one table or view of a version. Its template is sql/<version>/<name>.sql.
type object struct {
	name string
	// shardBy is the Distributed table's sharding expression; empty for views. All
	// revisions of a key must come to one shard, so it is a function of the key alone.
	shardBy string
	// ttl is the key of the table's retention; empty when it has none or is a view.
	ttl string
}

// versions lists each version's objects in the order they are created: a view after the
// table it reads. Applied versions are frozen; what changes comes as a new version.
var versions = map[uint32][]object{
	1: {
		{name: "requests_base", shardBy: "cityHash64(trace_id)", ttl: TTLRequests},
		{name: "requests"},
		{name: "operations_base", shardBy: "cityHash64(trace_id)", ttl: TTLOperations},
		{name: "operations"},
		{name: "attempts_base", shardBy: "cityHash64(trace_id)", ttl: TTLAttempts},
		{name: "attempts"},
		{name: "segments_base", shardBy: "cityHash64(trace_id)", ttl: TTLSegments},
		{name: "segments"},
		{name: "open_requests_base", shardBy: "cityHash64(trace_id)", ttl: TTLOpenRequests},
		{name: "open_requests"},
		{name: "spans_base", shardBy: "cityHash64(trace_id)", ttl: TTLSpans},
		{name: "spans"},
		{name: "rollup_requests_1m_base", shardBy: "cityHash64(service_name, minute)", ttl: TTLRollup1m},
		{name: "rollup_requests_1m"},
		{name: "rollup_requests_1h_base", shardBy: "cityHash64(service_name, minute)", ttl: TTLRollup1h},
		{name: "rollup_requests_1h"},
		{name: "rollup_operations_1m_base", shardBy: "cityHash64(service_name, minute)", ttl: TTLRollup1m},
		{name: "rollup_operations_1m"},
		{name: "rollup_operations_1h_base", shardBy: "cityHash64(service_name, minute)", ttl: TTLRollup1h},
		{name: "rollup_operations_1h"},
		{name: "rollup_attempts_1m_base", shardBy: "cityHash64(service_name, minute)", ttl: TTLRollup1m},
		{name: "rollup_attempts_1m"},
		{name: "rollup_attempts_1h_base", shardBy: "cityHash64(service_name, minute)", ttl: TTLRollup1h},
		{name: "rollup_attempts_1h"},
		{name: "alerts_base", shardBy: "cityHash64(fingerprint)", ttl: TTLAlerts},
		{name: "alerts"},
		{name: "detector_state_base", shardBy: "cityHash64(key)"},
		{name: "detector_state"},
	},
}

// source returns an object's template text.
func source(version uint32, name string) string {
	text, err := files.ReadFile(path.Join("sql", fmt.Sprintf("%04d", version), name+".sql"))
	if err != nil {
		panic(fmt.Sprintf("schema: version %d lists %q, which has no template: %v", version, name, err))
	}
	return string(text)
}

// Step is one object of one version, rendered for given options.
type Step struct {
	Version uint32
	// Number counts the version's steps from 1.
	Number uint32
	// Name is the object's name without its database.
	Name string
	// Checksum is the SHA-256 of the template, in hex, so it is the same on one node and
	// on a cluster, and for every retention.
	Checksum string
	// Statements create the object; each is safe to run again.
	Statements []string
}

// Steps renders every step up to Version, in the order they are applied. The error is
// that of o.Validate.
func Steps(o Options) ([]Step, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	var steps []Step
	for version := uint32(1); version <= Version; version++ {
		for i, obj := range versions[version] {
			text := source(version, obj.name)
			statement, err := o.render(obj.name, text)
			if err != nil {
				return nil, err
			}
			sum := sha256.Sum256([]byte(text))
			step := Step{
				Version: version, Number: uint32(i + 1), Name: obj.name,
				Checksum: hex.EncodeToString(sum[:]), Statements: []string{statement},
			}
			if o.Cluster != "" && obj.shardBy != "" {
				step.Statements = append(step.Statements, o.distributed(obj))
			}
			steps = append(steps, step)
		}
	}
	return steps, nil
}
