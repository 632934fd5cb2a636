package ui

import "strings"

// advice is what the UI says about a detection when the alert's own annotations do not.
type advice struct {
	title, cause string
	first, avoid []string
}

var adviceFor = map[string]advice{
	"retry_bimodality": {
		title: "Retries split user time in two",
		cause: "Calls that are retried take much longer for the user than those that are not, while the agent's own clock shows little difference: a retry layer below the agent is absorbing failures.",
		first: []string{
			"Open an example trace and see which layer retried and what the first attempt answered.",
			"Check the target's error rate and rate limits for the time of the first attempts.",
			"Compare the retry layer's total budget with the request's deadline.",
		},
		avoid: []string{
			"Do not raise retry counts or timeouts: each adds load and hides more time.",
			"Do not judge by the agent's own latency; it does not include the hidden time.",
		},
	},
	"deadline_drift": {
		title: "Agents believe they have more time than they do",
		cause: "The remaining time that planners are told is greater than what is left until the request's deadline, so that work is started which cannot finish.",
		first: []string{
			"Check that the deadline travels as an instant and is not started anew in a child call.",
			"Look for hidden time (failed attempts and backoffs) before the decision points of an example trace.",
		},
		avoid: []string{"Do not extend the budget before the drift is explained; the miss would only come later."},
	},
	"p95_spread": {
		title: "P95 of inference time has become unsteady",
		cause: "Inference time scatters far more than its baseline. This often comes minutes before timeouts: queues build up, or part of the capacity is slow.",
		first: []string{
			"See whether one endpoint, model or region carries the scatter.",
			"Check for a deployment or a traffic change at the time the spread began.",
			"Prepare to shed low-priority work or to fail over while requests still succeed.",
		},
		avoid: []string{"Do not wait for the error rate: requests still succeed at this stage.", "Do not add retries; they make a queue longer."},
	},
	"generation_slowdown": {
		title: "Tokens are generated more slowly",
		cause: "The median time per output token has risen for nearly all calls, and answers are no longer than usual.",
		first: []string{
			"Compare endpoints, regions and replicas of slow calls.",
			"Look at the accelerators' clocks, batch sizes and neighbours, or ask the provider.",
			"Move long answers elsewhere first: they lose the most time.",
		},
		avoid: []string{"Do not retry slow streams: a retry pays the whole answer again.", "Do not look for the reason in prompts while the time to first token is as usual."},
	},
	"ttft_shift": {
		title: "The first token comes later",
		cause: "Calls wait longer for their first token than their prompts explain: a queue, lost cache hits, or the way to the model.",
		first: []string{
			"See whether all calls to the model wait, or only those of one service, endpoint or region.",
			"Compare the share of cached input tokens with yesterday's.",
			"Shed low-priority work at a backend that queues.",
		},
		avoid: []string{"Do not set the first-token timeout lower now: calls that would be answered are sent again to the queue they waited in."},
	},
	"retry_amplification": {
		title: "Retries multiply calls",
		cause: "Each operation costs many more attempts than usual, over all layers that retry.",
		first: []string{
			"See which layer makes the extra tries and how they fail.",
			"Give that layer a retry budget of 10 to 20 % extra attempts, or let only one layer retry.",
		},
		avoid: []string{"Do not add a retry at another layer: layers multiply."},
	},
	"first_timeout": {
		title: "Calls die on their first attempt's timeout",
		cause: "The first attempt runs into its timeout and nothing tries again.",
		first: []string{
			"Compare the timeout with how long calls that succeed take.",
			"See whether one endpoint hangs, and fail over from it.",
		},
		avoid: []string{"Do not answer with retries alone: each waits out the same timeout."},
	},
	"retry_exhaustion": {
		title: "Calls fail although they are tried again",
		cause: "Tries fail until none are left, or until the time is gone.",
		first: []string{
			"Look at the class of the last errors: overload, timeout or a broken backend.",
			"Stop retrying what cannot succeed within the deadline; shed load or fail over.",
		},
		avoid: []string{"Do not raise the number of retries: they eat the time and add load."},
	},
	"cap_pileup": {
		title: "Work is cut at one value",
		cause: "Many calls end at the same length, as failures: something has a limit there.",
		first: []string{
			"Find who ends work at that value: SDK, gateway, proxy, idle connections.",
			"Compare it with the timeout that the caller declares and with the P95 of calls that succeed.",
		},
		avoid: []string{"Do not retry calls that are cut while making progress: each starts from nothing and is cut again."},
	},
	"stuck_ratio": {
		title: "Work is stuck or close to its time limit",
		cause: "Much more work than usual takes over half of its time limit, or requests are open that should long have ended.",
		first: []string{
			"Open the oldest open request and see what was begun and not ended.",
			"If several fell silent at one instant, look for a process that was restarted or killed.",
			"Where many are past half of their limit, find the step that grew and shed load.",
		},
		avoid: []string{"Do not raise the limit: what hangs then holds its place longer.", "Do not take silence for recovery."},
	},
	"cascade": {
		title: "Steps fail because the budget was spent upstream",
		cause: "Calls begin with hardly anything left of a deadline that they inherited, and fail by it.",
		first: []string{
			"Look at the step that the alert names: it spent the budget.",
			"Give that step a limit that leaves the later ones their part, or skip what no longer fits.",
		},
		avoid: []string{"Do not tune or roll back the step that fails: its own time is as ever.", "Do not retry it within the same request: nothing is left."},
	},
	"saturation": {
		title: "Load nears the number of places",
		cause: "So many of the places where this work runs are busy that a little more load makes waits grow quickly.",
		first: []string{
			"See whether arrivals or the time in service have risen.",
			"Add places or move low-priority work away while waits are short.",
		},
		avoid: []string{"Do not raise timeouts or retries: both add work to a queue that already grows."},
	},
	"timeout_not_enforced": {
		title: "A declared timeout does not end calls",
		cause: "Calls run well past the timeout that they declare, and succeed: the setting is overridden, bounds something else, or is not enforced.",
		first: []string{"Look for a second setting that overrides it, and for what it bounds: one read, one try or the whole call."},
		avoid: []string{"Do not count on this timeout in a budget until a test has shown that it cuts."},
	},
	"alert_504": {
		title: "Requests end with HTTP 504",
		cause: "Requests or model calls run into a gateway's timeout.",
		first: []string{"See the earlier alerts of this agent for what slowed it down.", "Shed or delay low-priority work."},
		avoid: []string{"Do not only raise the gateway's timeout."},
	},
	"pipeline_health": {
		title: "driftline does not see traffic",
		cause: "The collector, the exporter or storage has stopped, or the service sends nothing.",
		first: []string{"Check the collector, the exporter's queue and ClickHouse; until data is back no other alert can be trusted or cleared."},
		avoid: []string{"Do not read the silence of other alerts as recovery."},
	},
	"p95_surge": {
		title: "P95 of inference time has surged",
		cause: "The slowest twentieth of calls takes a multiple of the baseline, even if hardly any call fails yet.",
		first: []string{
			"See whether input or output tokens rose as well; longer work is not a fault.",
			"Compare with declared timeouts: how far is P95 from the cap?",
			"Route to another endpoint or model if one is slow alone.",
		},
		avoid: []string{"Do not lower timeouts below P95 now: that turns slow successes into failures and retries."},
	},
}

// annotation returns the first of an alert's annotations that is set.
func annotation(a Alert, keys ...string) string {
	for _, k := range keys {
		if v := a.Annotations[k]; v != "" {
			return v
		}
	}
	return ""
}

// title is the heading of an alert.
func title(a Alert) string {
	if s := annotation(a, "summary"); s != "" {
		return s
	}
	if d, ok := adviceFor[a.Detection]; ok {
		return d.title
	}
	return words(a.Detection)
}

// detectionTitle names a detection in words.
func detectionTitle(detection string) string {
	if d, ok := adviceFor[detection]; ok {
		return d.title
	}
	return words(detection)
}

func causeOf(a Alert) string {
	if s := annotation(a, "cause", "likely_cause"); s != "" {
		return s
	}
	return adviceFor[a.Detection].cause
}

// steps returns what to do first and what not to do, from the annotations or else from
// what is known of the detection. The second values say whether they are general.
func steps(a Alert) (first, avoid []string) {
	d := adviceFor[a.Detection]
	first, avoid = d.first, d.avoid
	if s := annotation(a, "do_first", "action", "what_to_do"); s != "" {
		first = lines(s)
	}
	if s := annotation(a, "do_not", "avoid", "what_not_to_do"); s != "" {
		avoid = lines(s)
	}
	return first, avoid
}

// lines splits an annotation into its lines, without list marks.
func lines(s string) []string {
	var out []string
	for _, l := range strings.Split(s, "\n") {
		if l = strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(l), "-*•")); l != "" {
			out = append(out, l)
		}
	}
	return out
}
