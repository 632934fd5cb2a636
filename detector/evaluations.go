package detector

import (
	"slices"
	"sync"
	"time"
)

// keptRounds bounds the evaluations that are remembered: an hour of rounds of 30 s.
const keptRounds = 120

// Evaluation is what one round made of one detection.
type Evaluation struct {
	// At is when the round began, Watermark the end of the windows it judged.
	At, Watermark time.Time
	Detection     string
	// Duration is what judging took, of RoundDuration in all; RowsRead is how many cells, sums
	// of work and open requests the round read from the store for all detections.
	Duration, RoundDuration time.Duration
	RowsRead                uint64
	// Slices counts what was judged, Levels how.
	Slices int
	Levels map[Level]int
	// Worst is the verdict that is nearest to an alert, the one with the most samples among
	// equals. Its evidence is left out.
	Worst Verdict
	// Error says why the round failed; then nothing was judged and Detection is empty.
	Error string
}

// SliceVerdict is what the last round said of one slice by one detection.
type SliceVerdict struct {
	Slice
	Detection string
	Level     Level
	Reason    string
	// From and To are the window, in Unix seconds.
	From, To  int64
	Samples   uint64
	Value     float64
	Threshold float64
	Baseline  float64
	Unit      string
}

// history remembers the last rounds. It has a lock of its own, so that pages need not wait
// for a round.
type history struct {
	mu     sync.Mutex
	rounds [][]Evaluation
	last   lastRound
}

// lastRound is what a round said of each slice, with the words that repeat kept once: there is
// one verdict for each slice and detection.
type lastRound struct {
	slices   []Slice
	sayings  []saying
	verdicts []packedVerdict
}

// saying is what verdicts have in common.
type saying struct {
	detection    string
	level        Level
	reason, unit string
}

// packedVerdict is a [SliceVerdict] with the places of its slice and words.
type packedVerdict struct {
	slice, saying              int32
	from, to                   int64
	samples                    uint64
	value, threshold, baseline float64
}

func packVerdicts(verdicts []Verdict) lastRound {
	out := lastRound{verdicts: make([]packedVerdict, 0, len(verdicts))}
	sliceAt, sayingAt := map[Slice]int32{}, map[saying]int32{}
	for i := range verdicts {
		v := &verdicts[i]
		said := saying{v.Detection, v.Level, v.Reason, v.Unit}
		if _, ok := sliceAt[v.Slice]; !ok {
			sliceAt[v.Slice] = int32(len(out.slices))
			out.slices = append(out.slices, v.Slice)
		}
		if _, ok := sayingAt[said]; !ok {
			sayingAt[said] = int32(len(out.sayings))
			out.sayings = append(out.sayings, said)
		}
		out.verdicts = append(out.verdicts, packedVerdict{sliceAt[v.Slice], sayingAt[said], v.From.Unix(), v.To.Unix(), v.Samples, v.Value, v.Threshold, v.Baseline})
	}
	return out
}

func (l *lastRound) all() []SliceVerdict {
	out := make([]SliceVerdict, 0, len(l.verdicts))
	for _, v := range l.verdicts {
		said := l.sayings[v.saying]
		out = append(out, SliceVerdict{l.slices[v.slice], said.detection, said.level, said.reason, v.from, v.to, v.samples, v.value, v.threshold, v.baseline, said.unit})
	}
	return out
}

// severity of levels, from saying nothing to breaching.
var levelOrder = []Level{Insufficient, NoBaseline, Quiet, Hold, Breach}

// summarise makes a round's evaluations, one for each detection that judged anything.
func summarise(at time.Time, round Round, took map[string]time.Duration, whole time.Duration, rows uint64, err error) []Evaluation {
	common := Evaluation{At: at, Watermark: round.Watermark, RoundDuration: whole, RowsRead: rows}
	if err != nil {
		common.Error = err.Error()
		return []Evaluation{common}
	}
	by := map[string]*Evaluation{}
	var names []string
	for _, v := range round.Verdicts {
		e := by[v.Detection]
		if e == nil {
			fresh := common
			e = &fresh
			e.Detection, e.Duration, e.Levels = v.Detection, took[v.Detection], map[Level]int{}
			by[v.Detection] = e
			names = append(names, v.Detection)
		}
		e.Slices++
		e.Levels[v.Level]++
		a, b := slices.Index(levelOrder, v.Level), slices.Index(levelOrder, e.Worst.Level)
		if e.Slices == 1 || a > b || a == b && v.Samples > e.Worst.Samples {
			e.Worst = v
			e.Worst.Evidence, e.Worst.notes = Evidence{}, nil
		}
	}
	slices.Sort(names)
	out := make([]Evaluation, 0, len(names))
	for _, n := range names {
		out = append(out, *by[n])
	}
	return out
}

func (h *history) add(evaluations []Evaluation, verdicts []Verdict) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rounds = append(h.rounds, evaluations)
	h.rounds = h.rounds[max(0, len(h.rounds)-keptRounds):]
	if len(evaluations) == 1 && evaluations[0].Error != "" {
		return
	}
	h.last = packVerdicts(verdicts)
}

// Evaluations lists the last evaluations of a detection, or of all for an empty name, the
// newest round first, at most limit. It does not wait for a round.
func (e *Engine) Evaluations(detection string, limit int) []Evaluation {
	e.history.mu.Lock()
	defer e.history.mu.Unlock()
	out := []Evaluation{}
	for _, round := range slices.Backward(e.history.rounds) {
		for _, v := range round {
			if len(out) == limit {
				return out
			}
			if detection == "" || v.Detection == detection || v.Error != "" {
				out = append(out, v)
			}
		}
	}
	return out
}

// Slices lists what the last round said of each slice. It does not wait for a round.
func (e *Engine) Slices() []SliceVerdict {
	e.history.mu.Lock()
	defer e.history.mu.Unlock()
	return e.history.last.all()
}

// Title is what a detection is called in words; not ok for one that does not exist.
func Title(detection string) (title string, ok bool) {
	a, ok := advice[detection]
	return a.title, ok
}

// Detections lists all detections, in the order of the docs.
func Detections() []string { return append(Shadowable(), Alert504) }

// ShadowOf says whether a detection is in shadow where no override says otherwise.
func (e *Engine) ShadowOf(detection string) bool {
	if detection == Alert504 {
		return true
	}
	c := e.shadows.Load()
	return c != nil && (*c)[detection]
}
