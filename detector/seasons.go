package detector

import (
	"context"
	"math"
	"slices"
	"sort"
	"time"

	"driftline/detector/stats"
)

// seasons knows the rhythm of the day: how the P95 of each hour stands to that of its day,
// over the days before. A service that is slow each morning is then compared with mornings.
//
// Hours are read one hour of the day at a time, all its days at once, so that a start does
// not wait for two weeks of history: until they are there, the day's median is the baseline.
type seasons struct {
	days    int
	loaded  map[int64]bool // by start, Unix seconds
	bySlice map[Slice]*rhythm
}

// rhythm is a slice's hours in order.
type rhythm struct {
	hours []hourP95
	// offsets are those of the two hours around offsetsAt, in logs.
	offsets   [2]float64
	offsetsAt int64
}

// hourP95 is an hour's log P95; at is its start in hours since 1970.
type hourP95 struct {
	at  int32
	log float32
}

const (
	// minSeasonDays is how many days must have an hour before it counts.
	minSeasonDays = 3
	// minDayHours is how many hours of a day must be known to say what the day was like.
	minDayHours = 12
	// minPerHour is how many times an hour's P95 needs.
	minPerHour = 50
	// maxSeason bounds the factor either way: a rhythm stronger than that is an incident.
	maxSeason = 3
	// hourSettles is how long after its end an hour is read.
	hourSettles = 15 * time.Minute
)

func newSeasons(days int) seasons {
	return seasons{days: days, loaded: map[int64]bool{}, bySlice: map[Slice]*rhythm{}}
}

// missing lists hours to read now: those of the hour of the day that w is in, or else of the
// next one that lacks any.
func (s *seasons) missing(w time.Time) []time.Time {
	last := w.Add(-hourSettles).Truncate(time.Hour)
	for ahead := range 24 {
		var out []time.Time
		hour := w.Truncate(time.Hour).Add(time.Duration(ahead) * time.Hour)
		for d := 1; d <= s.days; d++ {
			if at := hour.AddDate(0, 0, -d); at.Before(last) && !s.loaded[at.Unix()] {
				out = append(out, at)
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// read loads what is missing and drops what is too old.
func (s *seasons) read(ctx context.Context, st Store, w time.Time) error {
	if s.days == 0 {
		return nil
	}
	oldest := w.Truncate(time.Hour).AddDate(0, 0, -s.days)
	for at := range s.loaded {
		if at < oldest.Unix() {
			delete(s.loaded, at)
		}
	}
	hours := s.missing(w)
	if len(hours) == 0 {
		return nil
	}
	got, err := st.OperationHours(ctx, hours)
	if err != nil {
		return err
	}
	for _, h := range hours {
		s.loaded[h.Unix()] = true
	}
	for i := range got {
		own := ownTime(got[i].Kind, got[i].Inference, got[i].Call).Hist
		p95 := quantile(own, 0.95)
		if own.N() < minPerHour || p95 <= 0 {
			continue
		}
		r := s.bySlice[got[i].Slice]
		if r == nil {
			r = &rhythm{}
			s.bySlice[got[i].Slice] = r
		}
		r.put(hourP95{int32(got[i].Hour.Unix() / 3600), float32(math.Log(p95))})
	}
	first := int32(oldest.Unix() / 3600)
	for slice, r := range s.bySlice {
		r.offsetsAt = 0
		r.hours = slices.DeleteFunc(r.hours, func(h hourP95) bool { return h.at < first })
		if len(r.hours) == 0 {
			delete(s.bySlice, slice)
		}
	}
	return nil
}

func (r *rhythm) put(h hourP95) {
	k := sort.Search(len(r.hours), func(k int) bool { return r.hours[k].at >= h.at })
	if k < len(r.hours) && r.hours[k].at == h.at {
		r.hours[k] = h
		return
	}
	r.hours = slices.Insert(r.hours, k, h)
}

// factor is by how much P95 at w usually differs from that of the whole day; 1 where too
// few days are known. Between the middles of two hours it is interpolated.
func (s *seasons) factor(slice Slice, w time.Time) float64 {
	r := s.bySlice[slice]
	if r == nil {
		return 1
	}
	before := w.Add(-30 * time.Minute).Truncate(time.Hour)
	if r.offsetsAt != before.Unix() {
		r.offsets = [2]float64{r.offset(before.Hour()), r.offset((before.Hour() + 1) % 24)}
		r.offsetsAt = before.Unix()
	}
	part := w.Sub(before.Add(30 * time.Minute)).Hours()
	return math.Exp(r.offsets[0]*(1-part) + r.offsets[1]*part)
}

// offset is the median, over days, of an hour's log P95 less that of its day, drawn towards
// 0 by as much as it could be chance (James and Stein's positive part).
func (r *rhythm) offset(hour int) float64 {
	var diffs []float64
	for i := 0; i < len(r.hours); {
		day, first := r.hours[i].at/24, i
		var all []float64
		var own float64
		has := false
		for ; i < len(r.hours) && r.hours[i].at/24 == day; i++ {
			all = append(all, float64(r.hours[i].log))
			if int(r.hours[i].at%24) == hour {
				own, has = float64(r.hours[i].log), true
			}
		}
		if has && i-first >= minDayHours {
			diffs = append(diffs, own-median(all))
		}
	}
	if len(diffs) < minSeasonDays {
		return 0
	}
	m, mad, err := stats.MAD(diffs)
	if err != nil || m == 0 {
		return 0
	}
	se := 1.2533 * 1.4826 * mad / math.Sqrt(float64(len(diffs))) // of a median of normal values
	m *= max(0, 1-se*se/(m*m))
	return min(max(m, -math.Log(maxSeason)), math.Log(maxSeason))
}

// at is the baseline for a time of day at which P95 is usually factor times the day's. What
// is measured in time scales with it.
func (b OperationBaseline) at(factor float64) OperationBaseline {
	// A day's history is enough to know what was so yesterday at this time.
	if factor = max(factor, b.Yesterday); b.Far.Between {
		factor = 1 // P95 goes up and down by chance
	}
	b.TTFT.P50MS, b.TTFT.P95MS = b.TTFT.P50MS*max(1, b.YesterdayTTFT), b.TTFT.P95MS*max(1, b.YesterdayTTFT)
	b.Season = factor
	b.P50MS, b.P95MS, b.SpreadMS, b.TailMS = b.P50MS*factor, b.P95MS*factor, b.SpreadMS*factor, b.TailMS*factor
	b.Scatter.RawSD, b.Scatter.SamplingSD, b.Scatter.CorrectedSD = b.Scatter.RawSD*factor, b.Scatter.SamplingSD*factor, b.Scatter.CorrectedSD*factor
	b.Call.P95MS *= factor
	b.LogP95, b.Call.LogP95 = b.LogP95+math.Log(factor), b.Call.LogP95+math.Log(factor)
	return b
}
