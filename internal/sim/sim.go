package sim

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// maxBatch is the most spans in one export, the SDKs' default.
const maxBatch = 512

// Emission is one export of one process: spans of one resource, sent at At.
type Emission struct {
	At     time.Time
	Traces ptrace.Traces
}

// Stats counts what a Sim has done. SpansPlayed = SpansExported + SpansInFlight.
type Stats struct {
	RequestsPlayed int64
	SpansPlayed    int64
	SpansExported  int64
	SpansInFlight  int64
}

// Sim plays agents in event time. It holds only the spans that have not been exported
// yet. Its methods must not be called concurrently.
type Sim struct {
	cfg     Config
	player  *player
	streams []*stream
	procs   []*process
	truth   Truth
	byReq   *share504
	byCall  *share504
	first   int64 // end of the first 504 request since GatewayTimeoutsAt; 0 is none
	known   int64 // every arrival before it has been played
	stats   Stats
}

// stream is the Poisson arrivals at one service.
type stream struct {
	prof    *profile
	rng     *rand.Rand
	perNano float64
	next    int64
	count   uint64 // requests so far
	base    uint64 // keeps the request numbers of two streams apart
	procs   []*process
}

func (s *stream) step() {
	if s.perNano <= 0 {
		s.next = math.MaxInt64
		return
	}
	s.next += 1 + int64(s.rng.ExpFloat64()/s.perNano)
}

// process is one instance of a service with its own batching span exporter.
type process struct {
	prof    *profile
	name    string
	host    string
	rng     *rand.Rand
	every   int64
	pending spanHeap
	tick    int64 // when the next batch is cut
	sentAt  int64 // when that batch arrives
}

// schedule sets the next tick: the exporter's timer with its jitter, then the way to
// the collector. A process sends one batch after the other, so sentAt never goes back.
func (p *process) schedule() {
	p.tick += int64(float64(p.every) * (0.9 + 0.2*p.rng.Float64()))
	p.sentAt = max(p.sentAt, p.tick+int64((0.02+0.2*p.rng.Float64())*float64(p.every)))
}

// New checks the config, fills in its defaults and returns a Sim at Config.Start. The
// error names every field that is wrong.
func New(cfg Config) (*Sim, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	start := cfg.Start.UnixNano()
	s := &Sim{
		cfg:    cfg,
		player: newPlayer(cfg, newFaults(cfg)),
		truth:  plannedTruth(cfg),
		byReq:  newShare504(start),
		byCall: newShare504(start),
		known:  start,
	}
	s.addService(affectedProfile(cfg.Budget), cfg.Rates.RequestsPerMinute, cfg.Instances)
	s.addService(bystanderProfile(), cfg.Rates.BystanderPerMinute, 1)
	return s, nil
}

func (s *Sim) addService(prof *profile, perMinute float64, instances int) {
	number := uint64(len(s.streams))
	st := &stream{prof: prof, rng: s.rng(1, number), perNano: perMinute / float64(time.Minute), next: s.known, base: number << 56}
	st.step()
	for i := range instances {
		p := &process{
			prof: prof, name: fmt.Sprintf("%s-%d", prof.service, i), host: fmt.Sprintf("node-%d-%d", number, i),
			rng: s.rng(2, uint64(len(s.procs))), every: int64(s.cfg.ExportEvery), tick: s.known,
		}
		p.schedule()
		st.procs = append(st.procs, p)
		s.procs = append(s.procs, p)
	}
	s.streams = append(s.streams, st)
}

func (s *Sim) rng(kind, number uint64) *rand.Rand {
	return rand.New(rand.NewPCG(mix(s.cfg.Seed^kind<<32), mix(number)))
}

// Next returns, in order of time, every export that reaches the collector before
// `until` and was not returned yet. How time is cut into calls does not change what is
// exported. Within a batch, and from batch to batch of a process, children come before
// their parents and roots last.
func (s *Sim) Next(until time.Time) []Emission {
	var out []Emission
	limit := until.UnixNano()
	for {
		p := s.procs[0]
		for _, q := range s.procs[1:] {
			if q.sentAt < p.sentAt {
				p = q
			}
		}
		if p.sentAt >= limit {
			break
		}
		s.playUntil(p.tick)
		out = s.flush(out, p)
		p.schedule()
	}
	return out
}

// playUntil plays every request that arrives before `at`.
func (s *Sim) playUntil(at int64) {
	for {
		st := s.streams[0]
		for _, other := range s.streams[1:] {
			if other.next < st.next {
				st = other
			}
		}
		if st.next >= at {
			break
		}
		s.play(st)
	}
	s.known = max(s.known, at)
	s.byReq.advance(s.known)
	s.byCall.advance(s.known)
}

func (s *Sim) play(st *stream) {
	spans, end := s.player.request(st.prof, st.base|st.count, st.next)
	p := st.procs[st.count%uint64(len(st.procs))]
	for i := range spans {
		heap.Push(&p.pending, &spans[i])
	}
	st.count++
	st.step()
	s.stats.RequestsPlayed++
	s.stats.SpansPlayed += int64(len(spans))
	if !st.prof.affected {
		return
	}
	s.byReq.add(end)
	for _, c := range s.player.calls {
		s.byCall.add(c)
	}
	if end.timeout && !s.truth.GatewayTimeoutsAt.IsZero() && end.at >= s.truth.GatewayTimeoutsAt.UnixNano() && (s.first == 0 || end.at < s.first) {
		s.first = end.at
	}
}

// flush appends p's batches of all spans that ended by its tick.
func (s *Sim) flush(out []Emission, p *process) []Emission {
	var batch [scopeCount][]*span
	n := 0
	send := func() {
		out = append(out, Emission{At: time.Unix(0, p.sentAt).UTC(), Traces: p.export(&batch)})
		s.stats.SpansExported += int64(n)
		for i := range batch {
			batch[i] = batch[i][:0]
		}
		n = 0
	}
	for len(p.pending) > 0 && p.pending[0].end <= p.tick {
		sp := heap.Pop(&p.pending).(*span)
		batch[sp.scope] = append(batch[sp.scope], sp)
		if n++; n == maxBatch {
			send()
		}
	}
	if n > 0 {
		send()
	}
	return out
}

// export writes a batch as OTLP.
func (p *process) export(batch *[scopeCount][]*span) ptrace.Traces {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	res := rs.Resource().Attributes()
	res.EnsureCapacity(7)
	res.PutStr("service.name", p.prof.service)
	res.PutStr("service.version", p.prof.version)
	res.PutStr("service.instance.id", p.name)
	res.PutStr("host.name", p.host)
	res.PutStr("deployment.environment.name", "production")
	res.PutStr("telemetry.sdk.language", "python")
	res.PutStr("telemetry.sdk.name", "opentelemetry")
	for i, spans := range batch {
		if len(spans) == 0 {
			continue
		}
		ss := rs.ScopeSpans().AppendEmpty()
		ss.Scope().SetName(scopeNames[i])
		list := ss.Spans()
		list.EnsureCapacity(len(spans))
		for _, sp := range spans {
			sp.writeTo(list.AppendEmpty())
		}
	}
	return td
}

// Truth returns the planned faults and what has come of them up to KnownUntil.
func (s *Sim) Truth() Truth {
	t := s.truth
	t.KnownUntil = time.Unix(0, s.known).UTC()
	// A request already played may end later than another one not played yet.
	if s.first != 0 && s.first < s.known {
		t.First504At = time.Unix(0, s.first).UTC()
	}
	if s.byReq.alertAt != 0 {
		t.Alert504At = time.Unix(0, s.byReq.alertAt).UTC()
	}
	if s.byCall.alertAt != 0 {
		t.ModelAlert504At = time.Unix(0, s.byCall.alertAt).UTC()
	}
	return t
}

// Stats returns the counts so far.
func (s *Sim) Stats() Stats {
	st := s.stats
	st.SpansInFlight = st.SpansPlayed - st.SpansExported
	return st
}
