package fakellm

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// Outcome says how an attempt ended from the server's side.
type Outcome string

// The outcomes of an attempt.
const (
	// OutcomeComplete means the whole scripted answer was sent.
	OutcomeComplete Outcome = "complete"
	// OutcomeClientGone means the client closed the connection before the answer was complete.
	OutcomeClientGone Outcome = "client_gone"
	// OutcomeReset means the script reset the connection.
	OutcomeReset Outcome = "reset"
	// OutcomeServerClosed means the server was closed while the attempt was waiting.
	OutcomeServerClosed Outcome = "server_closed"
)

// LogEntry is what the server knows of one attempt. Times are Unix nanoseconds of the server's clock; a time that
// never came is absent, not zero. No content of the request or the answer is kept.
type LogEntry struct {
	// Seq numbers attempts from 1 in the order of their arrival.
	Seq int64 `json:"seq"`
	// Path is the request's URL path.
	Path string `json:"path"`
	// Model is the model asked for.
	Model string `json:"model,omitempty"`
	// Stream says whether the client asked for a stream.
	Stream bool `json:"stream"`
	// Script is the key of the script that answered: a registered name, an inline script, or "default".
	Script string `json:"script"`
	// Turn is the turn of the script that answered, from 0.
	Turn int `json:"turn,omitempty"`
	// Step is the step of that turn that answered, from 0.
	Step int `json:"step"`
	// AttemptHeader is the client's own ordinal (x-stainless-retry-count, 0 on the first try); absent when it sent none.
	AttemptHeader *int `json:"attempt_header,omitempty"`
	// AttemptSeen is the server's own count of attempts of this call, from 0.
	AttemptSeen int `json:"attempt_seen"`
	// Status is the HTTP status sent; absent when no status line was sent.
	Status int `json:"status,omitempty"`
	// Outcome says how the attempt ended.
	Outcome Outcome `json:"outcome"`
	// InputTokens is the number of tokens that the server says the request had.
	InputTokens int `json:"input_tokens,omitempty"`
	// OutputTokens is the number of tokens sent.
	OutputTokens int `json:"output_tokens"`
	// ReceivedAt is when the request had been read.
	ReceivedAt int64 `json:"received_at_ns"`
	// FirstByteAt is when the status line and headers were sent.
	FirstByteAt *int64 `json:"first_byte_at_ns,omitempty"`
	// FirstTokenAt is when a stream's first token was sent.
	FirstTokenAt *int64 `json:"first_token_at_ns,omitempty"`
	// CompletedAt is when the attempt was over for the server.
	CompletedAt int64 `json:"completed_at_ns"`
	// TraceID and ParentSpanID come from the traceparent header, in lower-case hex; empty when there was none.
	TraceID      string `json:"trace_id,omitempty"`
	ParentSpanID string `json:"parent_span_id,omitempty"`
}

// Received returns ReceivedAt as a time.
func (e LogEntry) Received() time.Time { return time.Unix(0, e.ReceivedAt) }

// Completed returns CompletedAt as a time.
func (e LogEntry) Completed() time.Time { return time.Unix(0, e.CompletedAt) }

// requestLog keeps finished attempts, newest maxLogEntries of them, and copies each to a writer.
type requestLog struct {
	mu       sync.Mutex
	seq      int64
	inFlight int
	idle     chan struct{} // closed while nothing is in flight
	entries  []LogEntry
	out      io.Writer
	outErr   error
}

// maxLogEntries bounds the memory of a server left running; the file has all of them.
const maxLogEntries = 100_000

func newRequestLog(out io.Writer) *requestLog {
	idle := make(chan struct{})
	close(idle)
	return &requestLog{out: out, idle: idle}
}

// begin counts an attempt as in flight and returns its number.
func (l *requestLog) begin() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inFlight == 0 {
		l.idle = make(chan struct{})
	}
	l.inFlight++
	l.seq++
	return l.seq
}

// end files a finished attempt.
func (l *requestLog) end(e LogEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) >= maxLogEntries {
		l.entries = append(l.entries[:0], l.entries[len(l.entries)/2:]...)
	}
	l.entries = append(l.entries, e)
	if l.out != nil && l.outErr == nil {
		line, err := json.Marshal(e)
		if err == nil {
			_, err = l.out.Write(append(line, '\n'))
		}
		if err != nil {
			l.outErr = fmt.Errorf("request log: cannot write entry %d: %w", e.Seq, err)
		}
	}
	l.inFlight--
	if l.inFlight == 0 {
		close(l.idle)
	}
}

func (l *requestLog) snapshot() []LogEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]LogEntry(nil), l.entries...)
}

func (l *requestLog) idleChan() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.idle
}

func (l *requestLog) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.outErr
}
