package api

import (
	"encoding/json"
	"math"
	"time"

	"driftline/detector"
	"driftline/detector/store"
)

// The types of the answers. Times are RFC 3339 in UTC, durations in the unit of their name;
// a number that is not finite is null.

type sliceName struct {
	Service string `json:"service"`
	Agent   string `json:"agent"`
	Kind    string `json:"kind"`
	Target  string `json:"target"`
	Stream  string `json:"stream"`
}

func nameOf(s store.Slice) sliceName {
	return sliceName{s.Service, s.Agent, s.Kind, s.Target, s.Stream}
}

type alert struct {
	Fingerprint string            `json:"fingerprint"`
	Transition  uint32            `json:"transition"`
	Detection   string            `json:"detection"`
	State       string            `json:"state"`
	Severity    string            `json:"severity"`
	Shadow      bool              `json:"shadow"`
	Muted       string            `json:"muted"`
	Slice       sliceName         `json:"slice"`
	At          time.Time         `json:"at"`
	StartedAt   time.Time         `json:"started_at"`
	FiredAt     *time.Time        `json:"fired_at"`
	ResolvedAt  *time.Time        `json:"resolved_at"`
	Value       *float64          `json:"value"`
	Threshold   *float64          `json:"threshold"`
	Baseline    *float64          `json:"baseline"`
	Unit        string            `json:"unit"`
	WindowMS    int64             `json:"window_ms"`
	Samples     uint64            `json:"samples"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func alertOf(a store.AlertRow) alert {
	out := alert{a.Fingerprint, a.Transition, a.Detection, a.State, a.Severity, a.Shadow, a.Annotations["muted"], nameOf(a.Slice), utc(a.At), utc(a.StartedAt), a.FiredAt, a.ResolvedAt,
		finite(a.Value), finite(a.Threshold), finite(a.Baseline), a.Unit, a.Window.Milliseconds(), a.Samples, a.Labels, a.Annotations}
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	return out
}

type alertList struct {
	Alerts []alert `json:"alerts"`
	// More says that there are more than the limit.
	More bool `json:"more"`
}

type detection struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Shadow  bool   `json:"shadow"`
	Runbook string `json:"runbook"`
}

type detectionList struct {
	Detections []detection `json:"detections"`
}

type evaluation struct {
	At              time.Time      `json:"at"`
	Watermark       *time.Time     `json:"watermark"`
	Detection       string         `json:"detection"`
	DurationMS      float64        `json:"duration_ms"`
	RoundDurationMS float64        `json:"round_duration_ms"`
	RowsRead        uint64         `json:"rows_read"`
	Slices          int            `json:"slices"`
	Verdicts        map[string]int `json:"verdicts"`
	Worst           *worst         `json:"worst"`
	Error           string         `json:"error"`
}

type worst struct {
	Slice sliceName `json:"slice"`
	verdict
}

func evaluationOf(e detector.Evaluation) evaluation {
	out := evaluation{At: utc(e.At), Detection: e.Detection, DurationMS: ms(e.Duration), RoundDurationMS: ms(e.RoundDuration), RowsRead: e.RowsRead, Slices: e.Slices, Verdicts: map[string]int{}, Error: e.Error}
	if !e.Watermark.IsZero() {
		at := utc(e.Watermark)
		out.Watermark = &at
	}
	for level, n := range e.Levels {
		out.Verdicts[string(level)] = n
	}
	if v := e.Worst; e.Slices > 0 {
		out.Worst = &worst{nameOf(v.Slice), verdict{v.Detection, string(v.Level), v.Reason, utc(v.From), utc(v.To), v.Samples, finite(v.Value), finite(v.Threshold), finite(v.Baseline), v.Unit}}
	}
	return out
}

type evaluationList struct {
	Evaluations []evaluation `json:"evaluations"`
}

type verdict struct {
	Detection string    `json:"detection"`
	Level     string    `json:"level"`
	Reason    string    `json:"reason"`
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`
	Samples   uint64    `json:"samples"`
	Value     *float64  `json:"value"`
	Threshold *float64  `json:"threshold"`
	Baseline  *float64  `json:"baseline"`
	Unit      string    `json:"unit"`
}

type sliceOf struct {
	sliceName
	Verdicts []verdict `json:"verdicts"`
}

type sliceList struct {
	Slices []sliceOf `json:"slices"`
	More   bool      `json:"more"`
}

type transition struct {
	alert
	Evidence json.RawMessage `json:"evidence"`
}

type evidence struct {
	Fingerprint string       `json:"fingerprint"`
	Transitions []transition `json:"transitions"`
}

func utc(t time.Time) time.Time { return t.UTC() }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
