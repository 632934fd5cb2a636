package genaisegment

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"driftline/internal/genai"
)

// maxTimeout is the longest limit that is believed.
const maxTimeout = 7 * 24 * time.Hour

// statedTimeouts are one service's limits and the key that they stand under.
type statedTimeouts struct {
	key, service string
	Timeouts
}

// listTimeouts lists both forms, that of the map by the services' names.
func (c *Config) listTimeouts() []statedTimeouts {
	out := make([]statedTimeouts, 0, len(c.Timeouts)+len(c.ServiceTimeouts))
	for _, service := range slices.Sorted(maps.Keys(c.Timeouts)) {
		out = append(out, statedTimeouts{"timeouts::" + service, service, c.Timeouts[service]})
	}
	for i, t := range c.ServiceTimeouts {
		out = append(out, statedTimeouts{fmt.Sprintf("service_timeouts[%d]", i), t.Service, t.Timeouts})
	}
	return out
}

// checkTimeouts reports limits that cannot be meant.
func (c *Config) checkTimeouts(report func(format string, args ...any)) {
	all := c.listTimeouts()
	if len(all) > maxTimeouts {
		report("'timeouts' and 'service_timeouts' may name at most %d services together, name %d", maxTimeouts, len(all))
	}
	statedAt := map[string]string{}
	for _, t := range all {
		switch other := statedAt[t.service]; {
		case strings.TrimSpace(t.service) == "" && strings.HasPrefix(t.key, "timeouts"):
			report("'timeouts' has an entry without a name: name a service, or \"*\" for all others")
		case strings.TrimSpace(t.service) == "":
			report("'%s::service' is missing: name a service, or \"*\" for all others", t.key)
		case other != "":
			report("'%s::service' names %q, which '%s' names too: give a service's limits once", t.key, t.service, other)
		default:
			statedAt[t.service] = t.key
		}
		t.check(report)
	}
}

func (t *statedTimeouts) check(report func(format string, args ...any)) {
	if t.Timeouts == (Timeouts{}) {
		report("'%s' sets no limit: give 'attempt_timeout', 'tool_timeout' or 'request_budget'", t.key)
	}
	type limit struct {
		key   string
		value time.Duration
	}
	parts := []limit{{"attempt_timeout", t.AttemptTimeout}, {"tool_timeout", t.ToolTimeout}}
	for _, d := range append(parts, limit{"request_budget", t.RequestBudget}) {
		if d.value < 0 || d.value > 0 && d.value < time.Millisecond || d.value > maxTimeout {
			report("'%s::%s' must be between 1ms and %s, is %s", t.key, d.key, maxTimeout, d.value)
		}
	}
	for _, d := range parts {
		if t.RequestBudget > 0 && d.value > t.RequestBudget {
			report("'%s::%s' (%s) must not be longer than its 'request_budget' (%s): it could never end anything in time", t.key, d.key, d.value, t.RequestBudget)
		}
	}
}

// timeouts are the limits by service, nil without any.
func (c *Config) timeouts() map[string]genai.Timeouts {
	all := c.listTimeouts()
	if len(all) == 0 {
		return nil
	}
	out := make(map[string]genai.Timeouts, len(all))
	for _, t := range all {
		out[t.service] = genai.Timeouts{Attempt: t.AttemptTimeout, Tool: t.ToolTimeout, Request: t.RequestBudget}
	}
	return out
}
