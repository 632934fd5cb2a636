package detector

import (
	"fmt"
	"time"

	"driftline/detector/store"
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

// gatewayMinutes sums cells by agent and minute, minutes in order. The key is the
// agent's request slice; where an agent has several kinds, the first in order.
func gatewayMinutes(reqs []store.RequestCell, ops []store.OperationCell) map[Slice][]GatewayMinute {
	byAgent := map[scope]map[int64]*GatewayMinute{}
	keys := map[scope]Slice{}
	at := func(s Slice, minute time.Time) *GatewayMinute {
		k := scope{s.Service, s.Agent}
		if byAgent[k] == nil {
			byAgent[k] = map[int64]*GatewayMinute{}
		}
		if byAgent[k][minute.Unix()] == nil {
			byAgent[k][minute.Unix()] = &GatewayMinute{At: minute}
		}
		return byAgent[k][minute.Unix()]
	}
	for i := range reqs {
		c := &reqs[i]
		m := at(c.Slice, c.Minute)
		m.Requests += c.N - c.Late
		m.Requests504 += c.Status504
		k := scope{c.Service, c.Slice.Agent}
		if _, ok := keys[k]; !ok {
			keys[k] = c.Slice
		}
	}
	for i := range ops {
		c := &ops[i]
		if !modelKind(c.Kind) {
			continue
		}
		m := at(c.Slice, c.Minute)
		m.ModelCalls += c.N - c.Late
		m.ModelCalls504 += c.Status504
		k := scope{c.Service, c.Slice.Agent}
		if _, ok := keys[k]; !ok {
			keys[k] = Slice{Service: c.Service, Agent: c.Slice.Agent, Kind: c.Kind}
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
