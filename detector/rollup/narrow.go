package rollup

import (
	"slices"
	"time"
)

// The rollups below have few columns and fewer dimensions than a slice. What is asked over
// a day or a month for all services together would otherwise read as many cells as there
// are slices.

// Schema version 2 brought these.
const secondVersion = 2

// keepers are how many values of a dimension a service's cell keeps.
const (
	keepEndpoints  = 50
	keepVersions   = 20
	keepTargets    = 50
	keepPriorities = 10
	keepAgents     = 200
)

// inputBucket divides model calls by how long the prompt was: time to first token grows with it.
const inputBucket = "multiIf(isNull(input_tokens) OR input_tokens < 0, 'unknown', input_tokens < 256, '0-255', input_tokens < 1024, '256-1023', " +
	"input_tokens < 4096, '1024-4095', input_tokens < 16384, '4096-16383', input_tokens < 65536, '16384-65535', '65536+')"

const knownTTFT = "if(ttft_state = 'known', ttft_ns, NULL)"

// dimensionTables answer which endpoint, prompt size, version or priority it is.
var dimensionTables = []table{
	table{
		name: "rollup_endpoints", base: "operations_base", late: true, overflow: true, since: secondVersion,
		dims: same("endpoint", "region"), keep: keepEndpoints, fold: []string{"endpoint", "region"},
		sums:  concat(outcomes(), counts("at_cap", "at_cap", "attempts", "ifNull(attempts, 0)", "queue_sum_ns", "queue_ns", "connect_sum_ns", "connect_ns")),
		hists: counts("inference_time", inferenceTime, "ttft", knownTTFT),
	},
	table{
		name: "rollup_inputs", base: "operations_base", late: true, overflow: true, since: secondVersion,
		dims: []column{{"target", "target"}, {"stream", "stream"}, {"input_bucket", inputBucket}}, keep: keepTargets, fold: []string{"target"},
		sums: concat(counts("ok", "outcome = 'ok'", "ttft_missing", "ttft_state = 'missing'", "ttft_suspect", "ttft_state = 'suspect'"), tokens),
		// What the model does before the first token, without the wait to be let in.
		hists: counts("ttft", knownTTFT, "prefill", "if(ttft_state = 'known', greatest(assumeNotNull(ttft_ns) - queue_ns - connect_ns, 0), NULL)", "inference_time", inferenceTime),
	},
	table{
		name: "rollup_versions", base: "operations_base", late: true, overflow: true, since: secondVersion,
		dims: same("service_version", "kind"), keep: keepVersions, fold: []string{"service_version"},
		sums:  concat(outcomes(), counts("at_cap", "at_cap", "attempts", "ifNull(attempts, 0)", "attempts_unknown", "isNull(attempts)"), deadlines),
		hists: counts("user_time", "user_time_ns", "inference_time", inferenceTime),
	},
	table{
		name: "rollup_priorities", base: "requests_base", late: true, overflow: true, since: secondVersion,
		dims: same("priority"), keep: keepPriorities, fold: []string{"priority"},
		sums:  concat(outcomes(), deadlines),
		hists: counts("user_time", "user_time_ns", "drift", drift),
	},
}

// narrow is what is kept of a slice's rollup over all its slices but for a few dimensions,
// in tiers for ranges of a day, a week and a month.
type narrow struct {
	name, source   string
	dims           []column
	scalars, hists []string
}

var errorClasses = []string{"ok", "errors_timeout", "errors_overload", "errors_server", "errors_client", "errors_network", "errors_cancelled", "errors_other", "status_504"}

var narrows = []narrow{
	{
		name: "rollup_retries", source: "rollup_operations",
		// An agent's operation holds those of its calls, so the two are never added up.
		dims:    []column{{"agent", "agent"}, {"composite", "toBool(kind IN ('agent', 'workflow'))"}, {"retries", "retries"}},
		scalars: slices.Concat([]string{"n", "late_fragments"}, errorClasses, []string{"at_cap", "attempts", "leaf_attempts", "attempts_unknown", "hidden_sum_ns"}),
		hists:   []string{"user_time", "agent_time"},
	},
	{
		name: "rollup_targets", source: "rollup_operations",
		dims:    same("agent", "kind", "target"),
		scalars: slices.Concat([]string{"n", "late_fragments"}, errorClasses, []string{"at_cap", "ttft_missing", "ttft_suspect", "input_tokens", "output_tokens", "cached_tokens"}),
		hists:   []string{"inference_time", "ttft", "time_per_output_token"},
	},
	{
		name: "rollup_agents", source: "rollup_requests",
		dims: same("agent"),
		scalars: slices.Concat([]string{"n", "late_fragments"}, errorClasses, []string{"deadline_known", "deadline_missed", "missed_own", "missed_inherited", "failed_attempt_sum_ns", "backoff_sum_ns",
			"queue_sum_ns", "connect_sum_ns", "ttft_segment_sum_ns", "generation_sum_ns", "inference_segment_sum_ns", "tool_sum_ns", "agent_sum_ns", "unattributed_sum_ns"}),
		hists: []string{"user_time", "drift"},
	},
}

// tiers are the narrow rollup's three tables. Hours come from the hours of the source, not
// from the ten minutes, so that those of old times can be made in the same way.
func (n narrow) tiers() []tier {
	scalars := slices.Clone(n.scalars)
	for _, h := range n.hists {
		scalars = append(scalars, h+"_n")
	}
	base := tier{dims: n.dims, scalars: scalars, hists: n.hists, keep: keepAgents, fold: []string{"agent"}, since: secondVersion}
	ten, hour, days := base, base, base
	ten.name, ten.source, ten.width = n.name+"_10m", n.source+"_1m", tenMinutes
	hour.name, hour.source, hour.width = n.name+"_1h", n.source+"_1h", time.Hour
	days.name, days.source, days.width, days.sourceSince = n.name+"_1d", n.name+"_1h", day, secondVersion
	days.dims = nil
	for _, d := range n.dims {
		days.dims = append(days.dims, column{d.name, d.name})
	}
	return []tier{ten, hour, days}
}
