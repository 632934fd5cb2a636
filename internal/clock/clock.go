package clock

import (
	"sync"
	"time"
)

// Clock tells the time and calls functions at an interval. Components take one
// instead of calling package time, so that tests, the demo and replays can drive
// them in event time.
type Clock interface {
	// Now is the present instant, in UTC.
	Now() time.Time
	// Every calls f about each d, never two calls of one f at once, until stop is
	// called. stop returns only after a running call of f has ended. d must be
	// positive.
	Every(d time.Duration, f func(now time.Time)) (stop func())
}

// System is the machine's own clock.
func System() Clock { return system{} }

type system struct{}

func (system) Now() time.Time { return time.Now().UTC() }

func (system) Every(d time.Duration, f func(now time.Time)) func() {
	ticker := time.NewTicker(d)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case now := <-ticker.C:
				f(now.UTC())
			}
		}
	}()
	var once sync.Once
	return func() {
		once.Do(func() {
			ticker.Stop()
			close(done)
		})
		<-ended
	}
}

// Manual is a clock that moves only when it is told to. Advance runs every due
// function on the caller's goroutine, in order of time, which makes a whole
// pipeline run as one deterministic program.
type Manual struct {
	mu     sync.Mutex
	now    time.Time
	nextID int
	jobs   map[int]*job
}

type job struct {
	every time.Duration
	due   time.Time
	f     func(time.Time)
}

// NewManual starts a manual clock at now.
func NewManual(now time.Time) *Manual {
	return &Manual{now: now.UTC(), jobs: map[int]*job{}}
}

// Now is the instant the clock was last moved to.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Every registers f to run at each multiple of d from now on.
func (m *Manual) Every(d time.Duration, f func(now time.Time)) func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := m.nextID
	m.nextID++
	m.jobs[id] = &job{every: d, due: m.now.Add(d), f: f}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.jobs, id)
	}
}

// Advance moves the clock by d and runs what falls due on the way. Functions due
// at one instant run in the order they were registered.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	end := m.now.Add(d)
	m.mu.Unlock()
	for m.step(end) {
	}
}

// step runs the next due function at or before end and reports whether there was
// one; otherwise it sets the clock to end.
func (m *Manual) step(end time.Time) bool {
	m.mu.Lock()
	var next *job
	nextID := -1
	for id, j := range m.jobs {
		if j.due.After(end) {
			continue
		}
		if next == nil || j.due.Before(next.due) || (j.due.Equal(next.due) && id < nextID) {
			next, nextID = j, id
		}
	}
	if next == nil {
		m.now = end
		m.mu.Unlock()
		return false
	}
	m.now = next.due
	now := next.due
	next.due = next.due.Add(next.every)
	m.mu.Unlock()
	next.f(now)
	return true
}
