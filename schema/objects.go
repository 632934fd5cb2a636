package schema

// object is one step of a version. Its template is sql/<version>/<name>.sql.
type object struct {
	// name is the table's or view's; for a change of a table it is any name that says what
	// changes, such as "operations_add_tenant".
	name string
	// shardBy is the Distributed table's sharding expression; empty for views and changes.
	// All revisions of a key must come to one shard, so it is a function of the key alone.
	shardBy string
	// ttl is the key of the table's retention; empty when it has none or is no new table.
	ttl string
	// alters is the base table that the template's commands change; empty for new tables and
	// views. The template holds one ALTER command a line, each of which is safe to repeat:
	// ADD COLUMN IF NOT EXISTS, MODIFY COLUMN, ADD INDEX IF NOT EXISTS, MODIFY SETTING. A view
	// keeps the columns it was created with, so the view over the table follows as a step of
	// the same version, with CREATE OR REPLACE VIEW.
	alters string
	// rebuilds is the base table that the template defines anew, for what ALTER cannot change:
	// the sort key, index_granularity. The template is a CREATE TABLE with all columns of the
	// table, and its key has the same columns, so that the same rows replace each other. See
	// rebuild.
	rebuilds string
}

func (o object) isTable() bool { return o.shardBy != "" }
func (o object) isView() bool  { return o.shardBy == "" && o.target() == "" }

// target is the table that the object changes; empty for new tables and views.
func (o object) target() string {
	if o.rebuilds != "" {
		return o.rebuilds
	}
	return o.alters
}

// versions lists each version's objects in the order they are applied: a view after the
// table it reads. Applied versions are frozen; what changes comes as a new version.
var versions = map[uint32][]object{
	1: version1,
	2: version2,
	3: version3,
	4: version4,
	5: version5,
	6: version6,
}

// version1 has shipped and does not change.
var version1 = []object{
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
}

// version2 has shipped and does not change.
var version2 = []object{
	{name: "requests_codecs", alters: "requests_base"},
	{name: "operations_codecs", alters: "operations_base"},
	{name: "attempts_codecs", alters: "attempts_base"},
	{name: "segments_codecs", alters: "segments_base"},
	{name: "spans_codecs", alters: "spans_base"},
	{name: "open_requests_codecs", alters: "open_requests_base"},
	{name: "operations"},
	{name: "attempts"},
	{name: "otel_traces"},
	{name: "otel_traces_trace_id_ts"},
	{name: "rollup_endpoints_1m_base", shardBy: "cityHash64(service_name, minute)", ttl: TTLRollup1m},
	{name: "rollup_endpoints_1m"},
	{name: "rollup_endpoints_1h_base", shardBy: "cityHash64(service_name, minute)", ttl: TTLRollup1h},
	{name: "rollup_endpoints_1h"},
	{name: "rollup_inputs_1m_base", shardBy: "cityHash64(service_name, minute)", ttl: TTLRollup1m},
	{name: "rollup_inputs_1m"},
	{name: "rollup_inputs_1h_base", shardBy: "cityHash64(service_name, minute)", ttl: TTLRollup1h},
	{name: "rollup_inputs_1h"},
	{name: "rollup_versions_1m_base", shardBy: "cityHash64(service_name, minute)", ttl: TTLRollup1m},
	{name: "rollup_versions_1m"},
	{name: "rollup_versions_1h_base", shardBy: "cityHash64(service_name, minute)", ttl: TTLRollup1h},
	{name: "rollup_versions_1h"},
	{name: "rollup_priorities_1m_base", shardBy: "cityHash64(service_name, minute)", ttl: TTLRollup1m},
	{name: "rollup_priorities_1m"},
	{name: "rollup_priorities_1h_base", shardBy: "cityHash64(service_name, minute)", ttl: TTLRollup1h},
	{name: "rollup_priorities_1h"},
	{name: "rollup_retries_10m_base", shardBy: "cityHash64(service_name, minute)", ttl: TTLRollup1m},
	{name: "rollup_retries_10m"},
	{name: "rollup_retries_1h_base", shardBy: "cityHash64(service_name, minute)", ttl: TTLRollup1h},
	{name: "rollup_retries_1h"},
	{name: "rollup_retries_1d_base", shardBy: "cityHash64(service_name, minute)", ttl: TTLRollup1h},
	{name: "rollup_retries_1d"},
	{name: "rollup_targets_10m_base", shardBy: "cityHash64(service_name, minute)", ttl: TTLRollup1m},
	{name: "rollup_targets_10m"},
	{name: "rollup_targets_1h_base", shardBy: "cityHash64(service_name, minute)", ttl: TTLRollup1h},
	{name: "rollup_targets_1h"},
	{name: "rollup_targets_1d_base", shardBy: "cityHash64(service_name, minute)", ttl: TTLRollup1h},
	{name: "rollup_targets_1d"},
	{name: "rollup_agents_10m_base", shardBy: "cityHash64(service_name, minute)", ttl: TTLRollup1m},
	{name: "rollup_agents_10m"},
	{name: "rollup_agents_1h_base", shardBy: "cityHash64(service_name, minute)", ttl: TTLRollup1h},
	{name: "rollup_agents_1h"},
	{name: "rollup_agents_1d_base", shardBy: "cityHash64(service_name, minute)", ttl: TTLRollup1h},
	{name: "rollup_agents_1d"},
	{name: "rollup_requests_1m_find_new", alters: "rollup_requests_1m_base"},
	{name: "rollup_requests_1h_find_new", alters: "rollup_requests_1h_base"},
	{name: "rollup_operations_1m_find_new", alters: "rollup_operations_1m_base"},
	{name: "rollup_operations_1h_find_new", alters: "rollup_operations_1h_base"},
	{name: "rollup_attempts_1m_find_new", alters: "rollup_attempts_1m_base"},
	{name: "rollup_attempts_1h_find_new", alters: "rollup_attempts_1h_base"},
}

// version3 has shipped and does not change.
var version3 = []object{
	{name: "requests_add_keys", alters: "requests_base"},
	{name: "operations_add_fallback", alters: "operations_base"},
	{name: "requests"},
	{name: "operations"},
	{name: "client_tries"},
}

// version4 has shipped and does not change.
var version4 = []object{
	{name: "rollup_operations_1m_rebuild", rebuilds: "rollup_operations_1m_base"},
	{name: "rollup_requests_1m_rebuild", rebuilds: "rollup_requests_1m_base"},
	{name: "rollup_attempts_1m_rebuild", rebuilds: "rollup_attempts_1m_base"},
	{name: "rollup_operations_1h_buffers", alters: "rollup_operations_1h_base"},
	{name: "rollup_requests_1h_buffers", alters: "rollup_requests_1h_base"},
	{name: "rollup_attempts_1h_buffers", alters: "rollup_attempts_1h_base"},
}

// version5 has shipped and does not change.
var version5 = []object{
	{name: "spans_rebuild", rebuilds: "spans_base"},
	{name: "rollup_endpoints_1h_rebuild", rebuilds: "rollup_endpoints_1h_base"},
	{name: "rollup_inputs_1h_rebuild", rebuilds: "rollup_inputs_1h_base"},
	{name: "rollup_versions_1h_rebuild", rebuilds: "rollup_versions_1h_base"},
	{name: "rollup_priorities_1h_rebuild", rebuilds: "rollup_priorities_1h_base"},
	{name: "spans_codecs_5", alters: "spans_base"},
	{name: "segments_codecs_5", alters: "segments_base"},
	{name: "operations_codecs_5", alters: "operations_base"},
	{name: "attempts_codecs_5", alters: "attempts_base"},
	{name: "requests_codecs_5", alters: "requests_base"},
	{name: "operations"},
	{name: "attempts"},
	{name: "requests"},
}

// version6 may change until it ships: add a template to sql/0006 and a line here.
var version6 = []object{
	{name: "requests_add_identity", alters: "requests_base"},
	{name: "requests"},
}
