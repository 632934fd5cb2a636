package detector_test

import (
	"context"
	"sort"
	"time"

	"driftline/detector"
	"driftline/detector/rollup"
	"driftline/detector/stats"
	"driftline/detector/store"
	"driftline/internal/rows"
)

// memStore holds rollups in memory, for soaks of many days of event time. That the
// real ones hold the same is tested in package rollup.
type memStore struct {
	ops    map[int64]map[opKey]*store.OperationCell
	reqs   map[int64]map[reqKey]*store.RequestCell
	states map[string]string
	alerts []store.AlertRow
}

type opKey struct {
	slice   store.Slice
	retries string
}
type reqKey struct {
	slice          store.Slice
	steps, retries string
}

func newMemStore() *memStore {
	return &memStore{ops: map[int64]map[opKey]*store.OperationCell{}, reqs: map[int64]map[reqKey]*store.RequestCell{}, states: map[string]string{}}
}

func bucket(retries uint32) string {
	return []string{"0", "1", "2+"}[min(retries, 2)]
}

func stepsBucket(n uint32) string {
	switch {
	case n == 0:
		return "0"
	case n <= 3:
		return "1-3"
	case n <= 7:
		return "4-7"
	case n <= 14:
		return "8-14"
	}
	return "15+"
}

func add(m *store.Measure, ns int64) {
	if m.Hist == nil {
		m.Hist = &stats.Hist{}
	}
	m.N++
	m.SumNS += ns
	m.Hist.Add(float64(ns) / 1e6)
}

func (s *memStore) add(reqs []*rows.Request, ops []*rows.Operation) {
	for _, o := range ops {
		at := o.EndedAt / 6e10 * 60
		k := opKey{store.Slice{Service: o.ServiceName, Agent: o.Agent, Kind: o.Kind, Target: o.Target, Stream: o.Stream}, bucket(*o.Attempts - 1)}
		if s.ops[at] == nil {
			s.ops[at] = map[opKey]*store.OperationCell{}
		}
		c := s.ops[at][k]
		if c == nil {
			c = &store.OperationCell{Slice: k.slice, Minute: time.Unix(at, 0).UTC(), Retries: k.retries}
			s.ops[at][k] = c
		}
		c.N++
		c.OK++
		c.Attempts += uint64(*o.Attempts)
		c.HiddenNS += *o.HiddenTotalNS
		c.FailedNS += o.FailedAttemptNS
		c.BackoffNS += o.BackoffNS
		add(&c.User, o.UserTimeNS)
		add(&c.Agent, *o.AgentTimeNS)
		add(&c.Inference, *o.InferenceTimeNS)
	}
	for _, r := range reqs {
		at := r.EndedAt / 6e10 * 60
		k := reqKey{store.Slice{Service: r.ServiceName, Agent: r.Agent, Kind: r.Kind}, stepsBucket(r.Steps), bucket(*r.Retries)}
		if s.reqs[at] == nil {
			s.reqs[at] = map[reqKey]*store.RequestCell{}
		}
		c := s.reqs[at][k]
		if c == nil {
			c = &store.RequestCell{Slice: k.slice, Minute: time.Unix(at, 0).UTC(), Steps: k.steps, Retries: k.retries}
			s.reqs[at][k] = c
		}
		c.N++
		if r.HTTPStatus == 504 {
			c.Status504++
		}
		c.Operations += uint64(r.Operations)
		c.Attempts += uint64(*r.Attempts)
		c.DeadlineKnown++
		if *r.DeadlineMissed {
			c.DeadlineMissed++
		}
		c.AgentReported++
		c.FailedNS += *r.HiddenTotalNS
		add(&c.User, r.UserTimeNS)
		add(&c.Agent, *r.AgentTimeNS)
		add(&c.Hidden, *r.HiddenPathNS)
		add(&c.Drift, *r.DriftNS)
	}
}

func (s *memStore) forget(before time.Time) {
	for at := range s.ops {
		if at < before.Unix() {
			delete(s.ops, at)
			delete(s.reqs, at)
		}
	}
}

func (s *memStore) OperationCells(_ context.Context, from, to time.Time) ([]store.OperationCell, error) {
	var out []store.OperationCell
	for at := from.Unix(); at < to.Unix(); at += 60 {
		for _, c := range s.ops[at] {
			out = append(out, *c)
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Minute.Before(out[j].Minute) })
	return out, nil
}

func (s *memStore) RequestCells(_ context.Context, from, to time.Time) ([]store.RequestCell, error) {
	var out []store.RequestCell
	for at := from.Unix(); at < to.Unix(); at += 60 {
		for _, c := range s.reqs[at] {
			out = append(out, *c)
		}
	}
	return out, nil
}

func (s *memStore) OperationHistory(ctx context.Context, from, to time.Time) ([]store.OperationMinute, error) {
	cells, err := s.OperationCells(ctx, from, to)
	type key struct {
		slice store.Slice
		at    int64
	}
	at := map[key]int{}
	var out []store.OperationMinute
	for _, c := range cells {
		k := key{c.Slice, c.Minute.Unix()}
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, store.OperationMinute{Slice: c.Slice, Minute: c.Minute})
		}
		m := &out[i]
		m.N += c.N
		m.Known += c.N
		if c.Retries != "0" {
			m.Retried += c.N
		}
		m.Inference.Add(c.Inference)
	}
	return out, err
}

func (s *memStore) RequestHistory(ctx context.Context, from, to time.Time) ([]store.RequestMinute, error) {
	cells, err := s.RequestCells(ctx, from, to)
	out := make([]store.RequestMinute, len(cells))
	for i, c := range cells {
		out[i] = store.RequestMinute{Slice: c.Slice, Minute: c.Minute, Steps: c.Steps, N: c.N, Operations: c.Operations, Attempts: c.Attempts,
			DeadlineKnown: c.DeadlineKnown, DeadlineMissed: c.DeadlineMissed, Hidden: c.Hidden, Drift: c.Drift}
	}
	return out, err
}

func (s *memStore) Budgets(context.Context, time.Time, time.Time) ([]store.Budget, error) {
	return []store.Budget{{Slice: store.Slice{Service: "shop", Agent: "planner", Kind: rows.KindAgent}, N: 1, Known: 1, MedianNS: 120e9}}, nil
}

func (s *memStore) IngestLag(context.Context, time.Time, time.Time) (time.Duration, uint64, error) {
	return 3 * time.Second, 400, nil
}

func (s *memStore) Examples(context.Context, store.Slice, time.Time, time.Time, store.ExampleOrder, int) ([]store.Example, error) {
	return nil, nil
}

func (s *memStore) SaveAlerts(_ context.Context, alerts []store.AlertRow) error {
	s.alerts = append(s.alerts, alerts...)
	return nil
}

func (s *memStore) LoadState(_ context.Context, key string) (string, bool, error) {
	v, ok := s.states[key]
	return v, ok, nil
}

func (s *memStore) SaveState(_ context.Context, key, state string, _ uint64) error {
	s.states[key] = state
	return nil
}

func (s *memStore) Run(context.Context, time.Time) (rollup.Stats, error) { return rollup.Stats{}, nil }

// collect keeps what it is given.
type collect struct {
	name string
	fail error
	got  []detector.Alert
}

func (c *collect) Name() string { return c.name }

func (c *collect) Notify(_ context.Context, alerts []detector.Alert) error {
	if c.fail != nil {
		return c.fail
	}
	c.got = append(c.got, alerts...)
	return nil
}

// news is what was not a repeat.
func (c *collect) news() []detector.Alert {
	var out []detector.Alert
	for _, a := range c.got {
		if !a.Resend {
			out = append(out, a)
		}
	}
	return out
}
