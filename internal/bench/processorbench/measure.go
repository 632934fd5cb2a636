package main

import (
	"os"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// stopwatch adds up real time and this process's CPU time; package time would tell the
// bubble's time.
type stopwatch struct {
	wall, cpu time.Duration
	at        time.Duration
	used      time.Duration
}

func (s *stopwatch) start() { s.at, s.used = realTime(), cpuTime() }

func (s *stopwatch) stop() {
	s.wall += realTime() - s.at
	s.cpu += cpuTime() - s.used
}

func realTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic("read the monotonic clock: " + err.Error())
	}
	return time.Duration(t.Nano())
}

func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic("read the CPU time used: " + err.Error())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func read(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// heapBytes is what objects on the heap take, those not yet swept included.
func heapBytes() int64 { return int64(read("/memory/classes/heap/objects:bytes")) }

// heapAllocated is what was ever allocated on the heap.
func heapAllocated() uint64 { return read("/gc/heap/allocs:bytes") }

// heapWatch samples the heap from outside of the bubble.
type heapWatch struct {
	on   atomic.Bool
	peak atomic.Int64
	done chan struct{}
}

// sampleEvery is far less than the time between two collections.
const sampleEvery = 2 * time.Millisecond

func newHeapWatch() *heapWatch {
	h := &heapWatch{done: make(chan struct{})}
	go func() {
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			select {
			case <-h.done:
				return
			case <-tick.C:
				if h.on.Load() {
					h.peak.Store(max(h.peak.Load(), heapBytes()))
				}
			}
		}
	}()
	return h
}

func (h *heapWatch) start() {
	h.peak.Store(0)
	h.on.Store(true)
}

func (h *heapWatch) stop() int64 {
	h.on.Store(false)
	return h.peak.Load()
}

func (h *heapWatch) close() { close(h.done) }

// load is the machine's load average of the last minute, for the report.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
