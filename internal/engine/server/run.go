//go:build linux || darwin

package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"driftline/internal/chdb"
)

// killInterval is how often cancelling is tried again: the engine may not yet list a statement that has just begun.
const killInterval = 100 * time.Millisecond

// run executes an admitted request on a connection of its own.
func (s *Server) run(ctx context.Context, req *request, rep *reply) error {
	// The engine keeps some state per thread; a statement's calls stay on one.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	conn, err := s.lib.Connect(s.connect...)
	if err != nil {
		return err
	}
	defer conn.Close()
	token := uuid.NewString()
	if err := s.prepare(conn, req, token); err != nil {
		return err
	}
	stop := s.cancelOnDone(ctx, token)
	defer stop()
	if req.data != nil {
		return s.insert(ctx, conn, req, rep)
	}
	return s.query(ctx, conn, req, rep)
}

// prepare gives the fresh connection the request's database and settings.
func (s *Server) prepare(conn *chdb.Conn, req *request, token string) error {
	if req.database != "" && req.database != "default" {
		if err := exec(conn, "USE "+quoteName(req.database)); err != nil {
			return err
		}
	}
	var b strings.Builder
	b.WriteString("SET log_comment = " + quoteText(strings.TrimSpace(req.userComment+" driftline:"+token)))
	for _, set := range req.settings {
		b.WriteString(", " + set.name + " = " + quoteText(set.value))
	}
	if req.readonly {
		b.WriteString(", readonly = 2")
	}
	return exec(conn, b.String())
}

func exec(conn *chdb.Conn, sql string) error {
	r, err := conn.Query(sql, "Null", nil)
	if err != nil {
		return err
	}
	r.Destroy()
	return nil
}

// cancelOnDone kills the statement marked with token when ctx ends first. The returned function ends the watch.
func (s *Server) cancelOnDone(ctx context.Context, token string) func() {
	finished := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-finished:
			return
		case <-ctx.Done():
		}
		for {
			s.anchorMu.Lock()
			if s.anchor != nil {
				_ = exec(s.anchor, "KILL QUERY WHERE endsWith(Settings['log_comment'], 'driftline:"+token+"') ASYNC")
			}
			s.anchorMu.Unlock()
			timer := time.NewTimer(killInterval)
			select {
			case <-finished:
				timer.Stop()
				return
			case <-timer.C:
			}
		}
	})
	return func() {
		close(finished)
		watch.Wait()
	}
}

func (s *Server) query(ctx context.Context, conn *chdb.Conn, req *request, rep *reply) error {
	what, err := conn.Classify(req.statement.sql)
	if err != nil {
		return err
	}
	if what.Statements > 1 {
		return refuse("several statements in one request are not supported: send them one by one")
	}
	selects := req.statement.keyword == "SELECT" || req.statement.keyword == "WITH" || req.statement.keyword == "FROM"
	if what.Class == chdb.ReadOnly && selects && streamable[req.format] && !req.waitEnd {
		return s.stream(ctx, conn, req, rep)
	}
	r, err := conn.Query(req.statement.sql, req.format, req.params)
	if err != nil {
		return err
	}
	defer r.Destroy()
	pieces := [][]byte{r.Bytes()}
	next := func() ([]byte, error) {
		if len(pieces) == 0 || len(pieces[0]) == 0 {
			return nil, io.EOF
		}
		piece := pieces[0]
		pieces = nil
		return piece, nil
	}
	if len(r.Bytes()) > 0 {
		rep.start(r.Stats(), false)
	}
	return s.send(req, rep, next, r.Stats())
}

func (s *Server) stream(ctx context.Context, conn *chdb.Conn, req *request, rep *reply) error {
	st, err := conn.Stream(req.statement.sql, req.format, req.params)
	if err != nil {
		return err
	}
	defer st.Close()
	var current *chdb.Result
	defer func() {
		if current != nil {
			current.Destroy()
		}
	}()
	next := func() ([]byte, error) {
		if current != nil {
			current.Destroy()
			current = nil
		}
		if ctx.Err() != nil {
			return nil, errClientGone
		}
		piece, err := st.Next()
		if err != nil {
			return nil, err
		}
		if piece == nil {
			return nil, io.EOF
		}
		current = piece
		return piece.Bytes(), nil
	}
	return s.send(req, rep, next, chdb.Stats{})
}

// send writes the pieces out, in new frames where the client asked for them.
func (s *Server) send(req *request, rep *reply, next func() ([]byte, error), stats chdb.Stats) error {
	if req.format == "Native" && req.nativeRevision > 0 {
		next = newReframer(next, req.nativeRevision).block
	}
	for {
		piece, err := next()
		if errors.Is(err, io.EOF) {
			return rep.finish(stats)
		}
		if err != nil {
			return err
		}
		if _, err := rep.Write(piece); err != nil {
			return fmt.Errorf("%w: %w", errClientGone, err)
		}
		rep.flush()
	}
}

// pieceBuffers holds the buffers between bodies and the engine.
var pieceBuffers = sync.Pool{New: func() any { b := make([]byte, 1<<20); return &b }}

func (s *Server) insert(ctx context.Context, conn *chdb.Conn, req *request, rep *reply) error {
	ins, err := conn.Insert(req.statement.sql, req.format, req.params)
	if err != nil {
		return err
	}
	defer ins.Close()
	buffer := pieceBuffers.Get().(*[]byte)
	defer pieceBuffers.Put(buffer)
	var received uint64
	for ended := false; !ended; {
		n, err := fill(req.data, *buffer)
		if err != nil && err != io.EOF {
			// The body is not whole: nothing of it may be committed.
			return bodyError(err)
		}
		ended = err == io.EOF
		received += uint64(n)
		if failure := ins.Append((*buffer)[:n]); failure != nil {
			return s.insertFailure(ins, failure)
		}
	}
	if ctx.Err() != nil {
		return errClientGone
	}
	stats, err := ins.Done()
	if err != nil {
		return err
	}
	s.insertsAcked.Add(1)
	s.insertedRows.Add(stats.WrittenRows)
	s.insertedBytes.Add(received)
	return rep.finish(stats)
}

// fill reads until the buffer is full. Unlike io.ReadFull it keeps a body's plain end (io.EOF) apart from one that broke
// off (io.ErrUnexpectedEOF), which must not be committed.
func fill(r io.Reader, buffer []byte) (int, error) {
	n := 0
	for n < len(buffer) {
		m, err := r.Read(buffer[n:])
		n += m
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// insertFailure asks the engine for the cause of an insert it stopped, which it tells only at the end.
func (s *Server) insertFailure(ins *chdb.Insert, seen error) error {
	if _, err := ins.Done(); err != nil {
		return err
	}
	return seen
}

func quoteText(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

func quoteName(s string) string {
	return "`" + strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(s) + "`"
}
