package main

import (
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"testing"
	"time"
)

// options are the benchmark's flags.
type options struct {
	seed     uint64
	steps    int
	rate     int // traces begun a step
	services int
	batch    int
	senders  int
	rounds   int
	hold     time.Duration
	// peerWorkers is groupbytrace's num_workers.
	peerWorkers int
	out         string
	profile     string
	only        string
	// collector is a program to flood instead, to read its process's memory.
	collector string
	boundsMiB string
	flood     time.Duration
}

// mixes are the shares of traces with GenAI spans.
var mixes = []struct {
	name  string
	share float64
}{{"30 % GenAI", 0.3}, {"100 % GenAI", 1}}

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", 42, "seed of the spans")
	flag.IntVar(&o.steps, "steps", 50, "steps of half a second in a run")
	flag.IntVar(&o.rate, "rate", 1000, "traces of ten spans that begin in a step")
	flag.IntVar(&o.services, "services", 10, "services that send")
	flag.IntVar(&o.batch, "batch", 512, "spans in a batch, about")
	flag.IntVar(&o.senders, "senders", 2, "batches sent at the same time")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds; in each, both processors run once with each mix")
	flag.DurationVar(&o.hold, "hold", 2*time.Second, "how long a trace is held after its root came")
	flag.IntVar(&o.peerWorkers, "peer-workers", 1, "groupbytrace's num_workers")
	flag.StringVar(&o.out, "out", "", "page whose section on the processor is replaced")
	flag.StringVar(&o.profile, "profile", "", "folder for profiles of CPU and allocations")
	flag.StringVar(&o.only, "only", "", "run only this processor, for profiles")
	flag.StringVar(&o.collector, "rss", "", "flood this collector and read its process's memory instead")
	flag.StringVar(&o.boundsMiB, "rss-bounds", "32,128", "max_memory_mib of that collector, one run each")
	flag.DurationVar(&o.flood, "rss-flood", 30*time.Second, "how long it is flooded")
	testing.Init() // a bubble needs a test around it
	flag.Parse()
	if o.collector != "" {
		if err := o.measureRSS(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{
		{Name: "processorbench", F: func(t *testing.T) { must(t, o.all(t)) }},
	}, nil, nil)
}

// all runs every round and reports.
func (o options) all(t *testing.T) error {
	heap := newHeapWatch()
	defer heap.close()
	results := map[string]map[string][]result{}
	began := load()
	for round := range o.rounds {
		for _, mix := range mixes {
			for i := range 2 {
				// Which one goes first changes, so that neither always finds a cold machine.
				name := [2]string{namePeer, nameOurs}[(i+round)%2]
				if o.only != "" && o.only != name {
					continue
				}
				stop, err := o.startProfile(name, mix.name)
				if err != nil {
					return err
				}
				r := o.run(t, name, mix.share, heap)
				stop()
				if t.Failed() {
					return nil
				}
				if results[mix.name] == nil {
					results[mix.name] = map[string][]result{}
				}
				results[mix.name][name] = append(results[mix.name][name], r)
				fmt.Fprintf(os.Stderr, "round %d, %s, %s: %.0f spans/s, %.2f us CPU a span, peak %d MiB, live %d MiB, %d B allocated a span, %d collections\n",
					round+1, mix.name, name, r.spansPerSecond(), r.microsPerSpan(), r.peak>>20, r.live>>20, r.allocated/r.spans, r.collected)
			}
		}
	}
	if o.only != "" {
		return nil
	}
	return o.render(results, began)
}

func (o options) startProfile(name, mix string) (func(), error) {
	if o.profile == "" {
		return func() {}, nil
	}
	f, err := os.Create(fmt.Sprintf("%s/%s-%.3s.pprof", o.profile, name, mix))
	if err != nil {
		return nil, fmt.Errorf("write a profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, fmt.Errorf("write a profile: %w", err)
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
		if a, err := os.Create(fmt.Sprintf("%s/%s-%.3s.allocs.pprof", o.profile, name, mix)); err == nil {
			pprof.Lookup("allocs").WriteTo(a, 0) // since the program began
			a.Close()
		}
	}, nil
}
