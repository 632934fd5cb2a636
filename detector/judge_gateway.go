package detector

import (
	"fmt"
	"time"
)

// GatewayMinute counts one minute of an agent for the late rule.
type GatewayMinute struct {
	At                        time.Time
	Requests, Requests504     uint64
	ModelCalls, ModelCalls504 uint64
}

// JudgeGateway is the usual late alert: more than Share of 504 in each of the last
// Minutes minutes. Requests and model calls are both looked at, and either is
// enough, so that lead over it is never flattered.
func JudgeGateway(slice Slice, minutes []GatewayMinute, cfg GatewayConfig) Verdict {
	v := Verdict{Detection: Alert504, Slice: slice, P: 1, Unit: "1", EffectUnit: "1", Severity: Critical, Threshold: cfg.Share}
	if len(minutes) < cfg.Minutes {
		return v.with(Insufficient, "few_requests")
	}
	last := minutes[len(minutes)-cfg.Minutes:]
	v.From, v.To = last[0].At, last[len(last)-1].At.Add(time.Minute)
	requests, calls, enough := true, true, true
	for i, m := range last {
		if i > 0 && m.At.Sub(last[i-1].At) != time.Minute {
			return v.with(Insufficient, "gap")
		}
		requests = requests && m.Requests >= cfg.MinRequests && share(m.Requests504, m.Requests) > cfg.Share
		calls = calls && m.ModelCalls >= cfg.MinRequests && share(m.ModelCalls504, m.ModelCalls) > cfg.Share
		enough = enough && (m.Requests >= cfg.MinRequests || m.ModelCalls >= cfg.MinRequests)
		v.Samples += max(m.Requests, m.ModelCalls)
		v.Value = max(v.Value, share(m.Requests504, m.Requests), share(m.ModelCalls504, m.ModelCalls))
	}
	v.Text = fmt.Sprintf("%.1f %% of answers were HTTP 504", 100*v.Value)
	v.Cause = "requests run into a gateway's timeout"
	switch {
	case requests || calls:
		return v.with(Breach, "gateway_timeouts")
	case !enough:
		return v.with(Insufficient, "few_requests")
	}
	return v.with(Quiet, "as_usual")
}

// gatewayMinutes sums cells of [from, to) by agent and minute, minutes in order. The key is
// the agent's request slice; where an agent has several kinds, the first in order.
func (c *cells) gatewayMinutes(from, to time.Time) map[Slice][]GatewayMinute {
	byAgent := map[scope]map[int64]*GatewayMinute{}
	keys := map[scope]Slice{}
	add := func(s Slice, key Slice, of *series, f func(g *GatewayMinute, m *packedMinute)) {
		k := scope{s.Service, s.Agent}
		for i := range of.minutes {
			m := &of.minutes[i]
			if m.at < from.Unix() || m.at >= to.Unix() {
				continue
			}
			if byAgent[k] == nil {
				byAgent[k] = map[int64]*GatewayMinute{}
			}
			if byAgent[k][m.at] == nil {
				byAgent[k][m.at] = &GatewayMinute{At: time.Unix(m.at, 0).UTC()}
			}
			f(byAgent[k][m.at], m)
			if _, ok := keys[k]; !ok {
				keys[k] = key
			}
		}
	}
	for _, s := range c.reqs.slicesWithin(from, to) {
		add(s, s, c.reqs.bySlice[s], func(g *GatewayMinute, m *packedMinute) {
			g.Requests, g.Requests504 = g.Requests+uint64(m.n), g.Requests504+uint64(m.status504)
		})
	}
	for _, s := range c.ops.slicesWithin(from, to) {
		if modelKind(s.Kind) {
			add(s, Slice{Service: s.Service, Agent: s.Agent, Kind: s.Kind}, c.ops.bySlice[s], func(g *GatewayMinute, m *packedMinute) {
				g.ModelCalls, g.ModelCalls504 = g.ModelCalls+uint64(m.n), g.ModelCalls504+uint64(m.status504)
			})
		}
	}
	out := map[Slice][]GatewayMinute{}
	for k, minutes := range byAgent {
		s, ok := keys[k]
		if !ok {
			continue
		}
		for _, m := range minutes {
			out[s] = append(out[s], *m)
		}
		sortMinutes(out[s])
	}
	return out
}
