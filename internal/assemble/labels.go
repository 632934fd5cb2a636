package assemble

import (
	"strings"
	"time"

	"driftline/internal/rows"
)

// Other replaces label values over the limit.
const Other = "other"

// Label values that were not seen for labelIdle give way to new ones; the search for
// them runs at most once per labelSweep.
const (
	labelIdle  = time.Hour
	labelSweep = time.Minute
)

// labels bounds the distinct values of each label column, since every further
// grouping (rollups, metrics, alerts) costs memory per value.
type labels struct {
	max      int
	columns  map[string]*labelColumn
	overflow int64
}

type labelColumn struct {
	lastSeen map[string]time.Time
	swept    time.Time
	// latest is the value looked up last, at latestAt: rows of one trace mostly share it.
	latest   string
	latestAt time.Time
}

func newLabels(limit int) *labels {
	return &labels{max: limit, columns: map[string]*labelColumn{}}
}

// bound replaces *value by Other when column already has max values in use.
func (l *labels) bound(column string, value *string, now time.Time) {
	if *value == "" || *value == Other {
		return
	}
	c := l.columns[column]
	if c == nil {
		c = &labelColumn{lastSeen: map[string]time.Time{}, swept: now}
		l.columns[column] = c
	}
	if *value == c.latest && now.Equal(c.latestAt) {
		return
	}
	kept := *value
	if _, known := c.lastSeen[kept]; !known {
		if !c.room(l.max, now) {
			*value = Other
			l.overflow++
			return
		}
		kept = strings.Clone(kept) // the row's text may belong to a whole trace
	}
	c.lastSeen[kept] = now
	c.latest, c.latestAt = kept, now
}

func (c *labelColumn) room(limit int, now time.Time) bool {
	if len(c.lastSeen) < limit {
		return true
	}
	if now.Sub(c.swept) < labelSweep {
		return false
	}
	c.swept = now
	for value, seen := range c.lastSeen {
		if now.Sub(seen) >= labelIdle {
			delete(c.lastSeen, value)
		}
	}
	return len(c.lastSeen) < limit
}

// most is the number of values of the column that has the most.
func (l *labels) most() int {
	n := 0
	for _, c := range l.columns {
		n = max(n, len(c.lastSeen))
	}
	return n
}

// bytes is about what the labels take.
func (l *labels) bytes() int64 {
	n := 0
	for _, c := range l.columns {
		n += len(c.lastSeen) * bytesPerLabel
	}
	return int64(n)
}

// bytesPerLabel is a place in a map and a short text.
const bytesPerLabel = 112

// apply bounds every label of row. The service is part of the row's key; a trace whose
// service gains or loses its place between two releases gets new rows and tombstones
// for the old ones, like any row whose key has changed.
func (l *labels) apply(row rows.Row, now time.Time) {
	l.bound("service_name", &row.Head().ServiceName, now)
	switch r := row.(type) {
	case *rows.Request:
		l.facts(&r.Facts, now)
	case *rows.Operation:
		l.facts(&r.Facts, now)
		l.bound("target", &r.Target, now)
		l.bound("response_model", &r.ResponseModel, now)
		l.bound("provider", &r.Provider, now)
		l.bound("endpoint", &r.Endpoint, now)
		l.bound("region", &r.Region, now)
	case *rows.Attempt:
		l.facts(&r.Facts, now)
		l.bound("target", &r.Target, now)
		l.bound("provider", &r.Provider, now)
		l.bound("endpoint", &r.Endpoint, now)
	case *rows.OpenRequest:
		l.bound("agent", &r.Agent, now)
	}
}

func (l *labels) facts(f *rows.Facts, now time.Time) {
	l.bound("service_version", &f.ServiceVersion, now)
	l.bound("environment", &f.Environment, now)
	l.bound("agent", &f.Agent, now)
	l.bound("name", &f.Name, now)
	l.bound("error_type", &f.ErrorType, now)
	l.bound("priority", &f.Priority, now)
	if len(f.Attributes) == 0 {
		return
	}
	// The rows of one trace may share a map, so a change is made on a copy.
	bounded := make(map[string]string, len(f.Attributes))
	for key, value := range f.Attributes {
		l.bound("attributes."+key, &value, now)
		bounded[key] = value
	}
	f.Attributes = bounded
}
