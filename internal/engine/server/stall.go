package server

import (
	"io"
	"net/http"
	"time"
)

// A running statement holds a slot, so a handful of peers that neither send nor take anything would stop all others,
// inserts included.

// stallReader is a body each of whose reads must bring something within the timeout, and which must end by the deadline.
type stallReader struct {
	io.ReadCloser
	control *http.ResponseController
	timeout time.Duration
	end     time.Time
}

func (s *stallReader) Read(p []byte) (int, error) {
	at := time.Now().Add(s.timeout)
	if s.end.Before(at) {
		at = s.end
	}
	// A writer without deadlines, as in tests, has no peer that could stall.
	_ = s.control.SetReadDeadline(at)
	n, err := s.ReadCloser.Read(p)
	// A deadline left behind would look like a peer that went away while its statement runs.
	_ = s.control.SetReadDeadline(time.Time{})
	return n, err
}

// stallWriter is a reply each of whose writes must be taken within the timeout.
type stallWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

func (s *stallWriter) Write(p []byte) (int, error) {
	_ = s.control.SetWriteDeadline(time.Now().Add(s.timeout))
	n, err := s.ResponseWriter.Write(p)
	if err == nil {
		_ = s.control.SetWriteDeadline(time.Time{})
	}
	return n, err
}

// FlushError is what [http.ResponseController] calls.
func (s *stallWriter) FlushError() error {
	_ = s.control.SetWriteDeadline(time.Now().Add(s.timeout))
	err := s.control.Flush()
	if err == nil {
		_ = s.control.SetWriteDeadline(time.Time{})
	}
	return err
}

// Flush is what a plain [http.Flusher] offers.
func (s *stallWriter) Flush() { _ = s.FlushError() }
