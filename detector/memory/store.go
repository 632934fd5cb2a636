package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"driftline/detector/rollup"
	"driftline/detector/stats"
	"driftline/detector/store"
	"driftline/internal/rows"
)

// Store is a detector.Store and a detector.Roller. Make one with [New]; it is safe for
// concurrent use.
type Store struct {
	mu      sync.Mutex
	minutes map[int64]*minute
	// touched are the minutes with rows since the last run, by service.
	touched map[string]map[int64]bool
	rows    int
	newest  time.Time
	states  map[string]string
	alerts  []store.AlertRow
	// hours are those asked for so far, which outlive their minutes.
	hours map[int64][]store.OperationHour
}

// minute is what is known of one minute, by cell.
type minute struct {
	ops  map[operationKey]*store.OperationCell
	reqs map[requestKey]*store.RequestCell
	atts map[attemptKey]*attemptCell
	// timeouts are the declared ones of operations.
	timeouts map[store.Slice]*budgets
	budgets  map[store.Slice]*budgets
	lag      *stats.Hist
	work     map[store.Slice]*work
	open     []*rows.OpenRequest
}

type budgets struct {
	n      uint64
	values []int64
}

// New returns an empty store.
func New() *Store {
	return &Store{minutes: map[int64]*minute{}, touched: map[string]map[int64]bool{}, states: map[string]string{}, hours: map[int64][]store.OperationHour{}}
}

// Add puts rows into their cells, as if each had arrived lag after it ended. Every key may
// come once. Rows that no cell is made of count for nothing.
func (s *Store) Add(lag time.Duration, all ...rows.Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range all {
		switch r := r.(type) {
		case *rows.Operation:
			s.operation(r)
		case *rows.Request:
			s.request(r, lag)
		case *rows.Attempt:
			s.attempt(r)
		case *rows.OpenRequest:
			s.openRequest(r)
		}
	}
}

// AddAttempts is Add for attempts.
func (s *Store) AddAttempts(all ...*rows.Attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range all {
		s.attempt(a)
	}
}

// AddOperations is Add for operations.
func (s *Store) AddOperations(all ...*rows.Operation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range all {
		s.operation(o)
	}
}

// AddRequests is Add for requests.
func (s *Store) AddRequests(lag time.Duration, all ...*rows.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range all {
		s.request(r, lag)
	}
}

// at gives the minute of an instant in Unix nanoseconds and marks it as changed.
func (s *Store) at(service string, ns int64) (*minute, time.Time) {
	const perMinute = int64(time.Minute)
	start := (ns - mod(ns, perMinute)) / int64(time.Second)
	m := s.minutes[start]
	if m == nil {
		m = &minute{ops: map[operationKey]*store.OperationCell{}, reqs: map[requestKey]*store.RequestCell{}, atts: map[attemptKey]*attemptCell{}, timeouts: map[store.Slice]*budgets{}, budgets: map[store.Slice]*budgets{}, lag: &stats.Hist{}}
		s.minutes[start] = m
	}
	if s.touched[service] == nil {
		s.touched[service] = map[int64]bool{}
	}
	s.touched[service][start] = true
	s.rows++
	return m, time.Unix(start, 0).UTC()
}

func mod(a, b int64) int64 { return ((a % b) + b) % b }

// Forget drops minutes before an instant.
func (s *Store) Forget(before time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := range s.minutes {
		if at < before.Unix() {
			delete(s.minutes, at)
		}
	}
}

// Run says which minutes got rows since the last run; cells are always up to date.
func (s *Store) Run(_ context.Context, now time.Time) (rollup.Stats, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := rollup.Stats{Touched: map[string][]int64{}, Newest: s.newest}
	for service, minutes := range s.touched {
		st.Touched[service] = slices.Sorted(maps.Keys(minutes))
		st.DirtyMinutes += len(minutes)
	}
	if st.DirtyMinutes > 0 {
		s.newest, st.Newest = now, now
	}
	clear(s.touched)
	return st, nil
}

// between lists the minutes in [from, to) that have rows, in order.
func (s *Store) between(from, to time.Time) []*minute {
	var out []*minute
	for at := from.Unix() - mod(from.Unix(), 60); at < to.Unix(); at += 60 {
		if m := s.minutes[at]; m != nil && at >= from.Unix() {
			out = append(out, m)
		}
	}
	return out
}

func compareSlices(a, b store.Slice) int {
	return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Stream, b.Stream))
}

// Budgets reads the budgets of requests that ended in [from, to), both whole minutes.
func (s *Store) Budgets(_ context.Context, from, to time.Time) ([]store.Budget, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[store.Slice]*budgets{}
	for _, m := range s.between(from, to) {
		for slice, b := range m.budgets {
			t := all[slice]
			if t == nil {
				t = &budgets{}
				all[slice] = t
			}
			t.n += b.n
			t.values = append(t.values, b.values...)
		}
	}
	var out []store.Budget
	for slice, b := range all {
		if len(b.values) == 0 {
			continue
		}
		slices.Sort(b.values)
		// quantileExact takes the value at rank n / 2.
		out = append(out, store.Budget{Slice: slice, N: b.n, Known: uint64(len(b.values)), MedianNS: b.values[len(b.values)/2]})
	}
	slices.SortFunc(out, func(a, b store.Budget) int { return compareSlices(a.Slice, b.Slice) })
	return out, nil
}

// IngestLag is the 95th percentile of the lag of requests whose root came, over the minutes
// that begin in [from, to), and their number.
func (s *Store) IngestLag(_ context.Context, from, to time.Time) (time.Duration, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &stats.Hist{}
	for _, m := range s.between(from, to) {
		h.Merge(m.lag)
	}
	n := h.N()
	if n == 0 {
		return 0, 0, nil
	}
	ms, err := h.Quantile(0.95)
	return time.Duration(ms * float64(time.Millisecond)), n, err
}

// Examples is empty: rows are not kept.
func (s *Store) Examples(context.Context, store.Slice, time.Time, time.Time, store.ExampleOrder, int) ([]store.Example, error) {
	return nil, nil
}

// SaveAlerts keeps transitions.
func (s *Store) SaveAlerts(_ context.Context, alerts []store.AlertRow) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alerts = append(s.alerts, alerts...)
	return nil
}

// Alerts lists all transitions that were stored, in that order.
func (s *Store) Alerts() []store.AlertRow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.alerts)
}

// LoadState reads what was saved under a key.
func (s *Store) LoadState(_ context.Context, key string) (string, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.states[key]
	return v, ok, nil
}

// SaveState keeps a state under a key, which must not be empty.
func (s *Store) SaveState(_ context.Context, key, state string, _ uint64) error {
	if key == "" {
		return fmt.Errorf("save the detector's state: the key is empty")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states[key] = state
	return nil
}
