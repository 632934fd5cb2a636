package rollup

import (
	"context"
	"fmt"
	"time"
)

// Rows are found by stored_at, which is the server's clock, and that may be set back: by NTP,
// by a virtual machine that resumes, by a failover to another host. What is stored then lies
// before the cursor, beyond any overlap.

const (
	// clockSlack is how far the server's clock may lie before the newest stored_at without
	// being taken for set back: servers of a cluster differ, and the overlap makes up for it.
	clockSlack = time.Second
	// lookBack is how much is read again in each run while the clock lies before the cursor.
	// It is measured from the clock, not from the cursor, so a jump may have any length; what
	// was stored between it and the run that notices it is younger, unless there was no run
	// for longer.
	lookBack = time.Hour
	// longRun is the time between runs from which on a jump may have gone by unnoticed that
	// the overlap does not cover: back and, by mere passing of time, past the cursor again.
	longRun = 10 * time.Second
)

// look is what a run knows of time when it decides how far back it reads.
type look struct {
	// now is the server's clock in Unix milliseconds.
	now int64
	// last is when the run before read the same tables, by this process's monotonic clock;
	// zero before the first.
	last time.Time
}

// behind is how far the server's clock lies before a cursor, 0 within the slack.
func (l look) behind(cursor int64) time.Duration {
	if d := time.Duration(cursor-l.now) * time.Millisecond; d > clockSlack {
		return d
	}
	return 0
}

// since is from when on what was stored is read, for a cursor, in Unix milliseconds.
func (l look) since(cursor int64, overlap time.Duration) int64 {
	unseen := time.Since(l.last)
	if l.last.IsZero() { // not known; the clock's word is the best there is
		unseen = time.Duration(l.now-cursor) * time.Millisecond
	}
	if l.behind(cursor) > 0 {
		return l.now - max(lookBack, overlap, unseen).Milliseconds()
	}
	back := overlap
	if unseen > longRun {
		back += min(unseen, lookBack)
	}
	since := cursor - back.Milliseconds()
	// In steps, since a cell that loses rows from sight looks like one that got some.
	return since - since%max(overlap.Milliseconds(), 1)
}

// readServerClock returns the server's clock in Unix milliseconds.
func (j *Job) readServerClock(ctx context.Context) (int64, error) {
	var now int64
	if err := j.conn.QueryRow(ctx, "SELECT toUnixTimestamp64Milli(now64(3))").Scan(&now); err != nil {
		return 0, fmt.Errorf("read the server's clock: %w", err)
	}
	return now, nil
}

// watchClock notes that the server's clock lies before the cursor, once per jump.
func (j *Job) watchClock(now int64, c cursor, st *Stats) {
	behind := look{now: now}.behind(c.newest())
	if behind > 0 && !j.clockBack {
		st.ClockJumped = true
		j.cfg.Logger.Warn("ClickHouse's clock lies before what it has stored; rollups read an hour again in each run until it has passed that. Check the time service of its host",
			"behind", behind, "server_clock", time.UnixMilli(now).UTC(), "newest_stored_at", time.UnixMilli(c.newest()).UTC())
	}
	j.clockBack = behind > 0
}
