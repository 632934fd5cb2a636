package detector

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"driftline/detector/store"
)

// States of an alert.
const (
	Pending  = "pending"
	Firing   = "firing"
	Resolved = "resolved"
)

// Alert is one alert at one transition, as notifiers get it.
type Alert struct {
	// Fingerprint is stable for a detection and a slice; Transition counts the
	// alert's changes of state from 1.
	Fingerprint string `json:"fingerprint"`
	Transition  uint32 `json:"transition"`
	Detection   string `json:"detection"`
	// State is pending, firing or resolved. A resolved alert without FiredAt was
	// pending and lapsed; it is stored and not sent.
	State       string            `json:"state"`
	Severity    string            `json:"severity"`
	Shadow      bool              `json:"shadow,omitempty"`
	Slice       Slice             `json:"slice"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	// At is when the transition was decided.
	At time.Time `json:"at"`
	// StartsAt is when the change began, as far as the minutes show it; otherwise the start
	// of the first window that breached.
	StartsAt time.Time `json:"starts_at"`
	// FiredAt and ResolvedAt are zero until then.
	FiredAt    time.Time `json:"fired_at"`
	ResolvedAt time.Time `json:"resolved_at"`
	// EndsAt is, for receivers that expire alerts, when this one ends unless it is
	// sent again; for a resolved alert it is ResolvedAt.
	EndsAt    time.Time     `json:"ends_at"`
	Value     float64       `json:"value"`
	Threshold float64       `json:"threshold"`
	Baseline  float64       `json:"baseline"`
	Unit      string        `json:"unit"`
	Window    time.Duration `json:"window_ns"`
	Samples   uint64        `json:"samples"`
	Evidence  Evidence      `json:"evidence"`
	// Resend says that nothing changed: the alert is repeated before EndsAt. Receivers
	// that do not expire alerts ignore it.
	Resend bool `json:"-"`
	// Muted is why a firing alert is kept and not sent: inhibited or maintenance, empty
	// if it is sent. MutedBy says by what, in words.
	Muted   string `json:"muted,omitempty"`
	MutedBy string `json:"muted_by,omitempty"`
}

// Key is the idempotency key of a notification: an alert may be sent more than
// once with one key, and receivers may drop the repeats.
func (a Alert) Key() string { return fmt.Sprintf("%s-%d", a.Fingerprint, a.Transition) }

// Notifier sends alerts somewhere. Notify gets them oldest first and either takes
// all, or returns an error and gets all of them again in a later round; a *DeliveryError
// says which it took or will never take. It is called at the same time as others.
type Notifier interface {
	Notify(ctx context.Context, alerts []Alert) error
	// Name is stable and distinct among the notifiers of one engine.
	Name() string
}

// Fingerprint identifies a detection on a slice.
func Fingerprint(detection string, s Slice) string {
	sum := sha256.Sum256([]byte(detection + "\x00" + sliceKey(s)))
	return hex.EncodeToString(sum[:8])
}

// maxLabel bounds a label's value in bytes.
const maxLabel = 200

// bounded cuts a long value and puts a part of its hash in place of the rest: receivers tell
// alerts apart by their labels alone, and names may differ at their end only.
func bounded(s string) string {
	if len(s) <= maxLabel {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	end := "~" + hex.EncodeToString(sum[:8])
	s = s[:maxLabel-len(end)]
	for r, n := utf8.DecodeLastRuneInString(s); r == utf8.RuneError && n == 1; r, n = utf8.DecodeLastRuneInString(s) {
		s = s[:len(s)-1]
	}
	return s + end
}

// LabelNames are the labels an alert can have, all bounded in number and length.
var LabelNames = []string{"alertname", "severity", "service", "agent", "kind", "target", "stream"}

func labels(detection, severity string, s Slice) map[string]string {
	out := map[string]string{"alertname": detection, "severity": severity, "service": bounded(s.Service)}
	for k, v := range map[string]string{"agent": s.Agent, "kind": s.Kind, "target": s.Target, "stream": s.Stream} {
		if v != "" {
			out[k] = bounded(v)
		}
	}
	return out
}

// advice is what to do first and what not to do.
var advice = map[string]struct{ title, first, not string }{
	RetryBimodality: {"Retries hide latency from the agent",
		"Open an example trace and see which calls are retried and why; lower concurrency or raise the backend's limit if the failed attempts are overload, fix the tool if they are errors.",
		"Do not raise retries or timeouts: that hides more time below the agent."},
	DeadlineDrift: {"Planners work with a stale deadline",
		"See in an example trace which step's failed attempts and backoff the planner did not see; pass the absolute deadline down and cap retries by what is left.",
		"Do not raise the request budget: the gap grows with retries, not with the budget."},
	P95Spread: {"Inference time has become uneven",
		"Compare endpoints, regions and service versions of slow and fast calls in the examples; look at the backend's queue.",
		"Do not retry slow calls harder: it adds load to a backend that queues."},
	P95Surge: {"P95 of inference time has surged",
		"Check the backend's load, queue and recent deployments; shed or delay low-priority work while requests still succeed.",
		"Do not lower timeouts below the present P95: calls that would succeed are then killed and retried."},
	GenerationSlowdown: {"Tokens are generated more slowly",
		"Compare endpoints, regions and replicas of slow calls; ask the provider or look at the accelerators' clocks, batches and neighbours; move long answers elsewhere first.",
		"Do not look for it in prompts or queues while the time to first token is as usual, and do not retry slow streams: a retry pays the whole answer again."},
	TTFTShift: {"The first token comes later",
		"See in the cause whether prompts, cache hits, a queue or one way is the reason; restore what the cache keys on, or shed low-priority work at the backend that queues.",
		"Do not set the first-token timeout lower now: calls that would be answered are then sent again to the queue they waited in."},
	RetryAmplification: {"Retries multiply calls",
		"See in the cause which layer makes the tries and what their errors are; give that layer a retry budget (at most 10 to 20 % extra), or let only one layer retry.",
		"Do not add a retry at another layer: layers multiply, and three tries on each of two layers are nine calls."},
	FirstTimeout: {"Calls die on their first attempt's timeout",
		"Open an example and see how long calls that succeed take; raise the timeout above their P95 where the deadline allows it, or fail over from the endpoint that hangs.",
		"Do not answer with retries alone: each waits out the same timeout, and the deadline pays for all of them."},
	RetryExhaustion: {"Calls fail although they are tried again",
		"Look at the class of the last errors: shed load where the backend turns calls away, fail over where it is broken; stop retrying what cannot succeed within the deadline.",
		"Do not raise the number of retries: they are what eats the time, and they add load."},
	CapPileup: {"Work is cut at one value",
		"Find who ends work at the value in the cause (SDK, gateway, proxy, idle connections) and compare it with the timeout that the caller declares; raise the one that is too low, or stream.",
		"Do not retry calls that are cut while making progress: each retry starts from nothing and is cut again."},
	StuckRatio: {"Work is stuck or close to its time limit",
		"See in the oldest open trace what was begun and not ended; cut or restart it. Where many are past half of their limit, find which step grew, and shed load before they time out.",
		"Do not raise the limit: work that hangs then holds its place longer."},
	Cascade: {"Steps fail because the budget was spent upstream",
		"Look at the upstream step that the cause names; give each step a part of the budget and skip those that no longer fit.",
		"Do not tune or roll back the step that fails: its own time is as ever. Do not retry it within the same request, since nothing is left."},
	Saturation: {"Load nears the number of places",
		"Add places or move low-priority work away now, while waits are short; see what raised arrivals or the time in service.",
		"Do not raise timeouts or retries: both add work to a queue that already grows."},
	TimeoutNotEnforced: {"A declared timeout does not end calls",
		"Look for a second setting that overrides it (client, method default, proxy) and for what it bounds: one read, one try, or the whole call; put a deadline around the call.",
		"Do not count on this timeout in a budget until a test has shown that it cuts."},
	Alert504: {"Requests end with HTTP 504", "See the earlier alerts of this agent for the cause.", "Do not only raise the gateway's timeout."},
	PipelineHealth: {"driftline does not see traffic",
		"Check the collector, the exporter's queue and ClickHouse; no other alert can be trusted or cleared until data is back.",
		"Do not read the silence of other alerts as recovery."},
}

func (c Config) annotations(v Verdict, fingerprint string) map[string]string {
	a := advice[v.Detection]
	out := map[string]string{
		"summary":  fmt.Sprintf("%s: %s in %s", a.title, v.Slice, v.Slice.Service),
		"cause":    v.Cause,
		"do_first": a.first,
		"do_not":   a.not,
	}
	if v.Detection == PipelineHealth {
		out["summary"] = fmt.Sprintf("%s: %s", a.title, v.Slice.Service)
	}
	out["description"] = fmt.Sprintf("%s. Window %s to %s UTC (%s), %d samples, %s.", v.Text, v.From.UTC().Format("15:04"), v.To.UTC().Format("15:04"),
		short(v.To.Sub(v.From)), v.Samples, v.numbers())
	if len(v.Evidence.Notes) > 0 {
		out["description"] += " Note: " + strings.Join(v.Evidence.Notes, "; ") + "."
	}
	out["value"], out["threshold"], out["baseline"], out["unit"] = v.amount(v.Value), v.amount(v.Threshold), v.amount(v.Baseline), v.Unit
	out["window"] = fmt.Sprintf("%s to %s UTC (%s)", v.From.UTC().Format("15:04"), v.To.UTC().Format("15:04"), short(v.To.Sub(v.From)))
	out["samples"] = fmt.Sprint(v.Samples)
	maps.Copy(out, v.notes)
	if line := out["cause_line"]; line != "" {
		// The sentence over all of the agent's work comes first; what the rule itself makes
		// of it stays beside it.
		delete(out, "cause_line")
		out["cause"], out["cause_detail"] = upper(line)+".", v.Cause
	}
	if len(v.Evidence.TraceIDs) > 0 {
		out["trace_ids"] = strings.Join(v.Evidence.TraceIDs, " ")
	}
	switch {
	case c.RunbookURL != "":
		out["runbook_url"] = c.RunbookURL + "#" + v.Detection
	case c.RunbookPages != "":
		out["runbook_url"] = c.RunbookPages + v.Detection
	}
	if c.EvidenceURL != "" {
		out["evidence_url"] = c.EvidenceURL + fingerprint
	}
	if c.DashboardURL != "" {
		sep := "?"
		if strings.Contains(c.DashboardURL, "?") {
			sep = "&"
		}
		out["dashboard_url"] = c.DashboardURL + sep + url.Values{"var-service": {v.Slice.Service}, "var-agent": {v.Slice.Agent}}.Encode()
	}
	return out
}

// short writes a duration without trailing zero parts: 5m, not 5m0s.
func short(d time.Duration) string {
	s := d.Round(time.Second).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// amount writes a number of the verdict in its unit.
func (v Verdict) amount(x float64) string {
	if v.Unit == "1" {
		return fmt.Sprintf("%.1f %%", 100*x)
	}
	return fmt.Sprintf("%.4g %s", x, v.Unit)
}

// numbers states value, threshold and baseline in their unit.
func (v Verdict) numbers() string {
	if v.Unit == "1" {
		return fmt.Sprintf("value %.1f %%, threshold %.1f %%, baseline %.1f %%", 100*v.Value, 100*v.Threshold, 100*v.Baseline)
	}
	if v.Unit == "attempts" {
		return fmt.Sprintf("value %.2f attempts, threshold %.2f attempts, baseline %.2f attempts", v.Value, v.Threshold, v.Baseline)
	}
	return fmt.Sprintf("value %.0f %s, threshold %.0f %s, baseline %.0f %s", v.Value, v.Unit, v.Threshold, v.Unit, v.Baseline, v.Unit)
}

// row is the alert as it is stored.
func (a Alert) row(version uint64) (store.AlertRow, error) {
	evidence, err := json.Marshal(a.Evidence)
	if err != nil {
		return store.AlertRow{}, fmt.Errorf("evidence of alert %s: %w", a.Key(), err)
	}
	r := store.AlertRow{Fingerprint: a.Fingerprint, Transition: a.Transition, At: a.At, Detection: a.Detection, State: a.State, Severity: a.Severity, Shadow: a.Shadow,
		Slice: a.Slice, StartedAt: a.StartsAt, Value: a.Value, Threshold: a.Threshold, Baseline: a.Baseline, Unit: a.Unit, Window: a.Window, Samples: a.Samples,
		Labels: a.Labels, Annotations: a.Annotations, Evidence: string(evidence), Version: version}
	if a.Muted != "" {
		r.Annotations = maps.Clone(a.Annotations)
		r.Annotations["muted"] = a.Muted + " by " + a.MutedBy
	}
	if !a.FiredAt.IsZero() {
		at := a.FiredAt
		r.FiredAt = &at
	}
	if !a.ResolvedAt.IsZero() {
		at := a.ResolvedAt
		r.ResolvedAt = &at
	}
	return r, nil
}
