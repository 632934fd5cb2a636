package detector

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"time"
)

// presenceKey is under which detectors of one database note that they are there.
const presenceKey = "engine/presence"

// presenceEvery is how often a detector does so.
const presenceEvery = 5 * time.Minute

// presence is what a detector notes of itself. Version is one more than that of the note it
// replaces, so that whoever reads its own note knows, by no clock, that nobody wrote since.
type presence struct {
	ID      string `json:"id"`
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Version uint64 `json:"version"`
}

// peers notices other detectors on the same state.
type peers struct {
	own       presence
	announced bool
	next      time.Time
	other     string
}

func newPeers() peers {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return peers{own: presence{ID: rand.Text(), Host: host, PID: os.Getpid()}}
}

// meet looks who noted itself last, warns of another detector that did so since this one
// had, and notes itself. What cannot be read or written is for the next time: a round does
// not fail by it.
func (e *Engine) meet(ctx context.Context, now time.Time) {
	p := &e.peers
	if now.Before(p.next) && p.next.Sub(now) <= presenceEvery {
		return
	}
	p.next = now.Add(presenceEvery)
	var last presence
	text, ok, err := e.store.LoadState(ctx, presenceKey)
	if err == nil && ok {
		err = json.Unmarshal([]byte(text), &last)
	}
	if err != nil {
		e.log.Warn("whether another detector runs on this database is not known", "error", err)
		return
	}
	other := ""
	if p.announced && ok && last.ID != p.own.ID {
		other = last.ID
	}
	if other != "" && p.other != other {
		e.log.Error("another detector runs on the same database: both judge, and webhooks and Slack get each alert from both; stop one, or give receivers other than Alertmanager to one of them alone",
			"other_host", last.Host, "other_pid", last.PID, "host", p.own.Host, "pid", p.own.PID)
	}
	p.other = other
	p.own.Version = max(last.Version, p.own.Version) + 1
	b, err := json.Marshal(p.own)
	if err == nil {
		err = e.store.SaveState(ctx, presenceKey, string(b), p.own.Version)
	}
	if err != nil {
		e.log.Warn("this detector could not note that it runs", "error", err)
		return
	}
	p.announced = true
}
