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
	b.WriteString("SET log_comment = " + quoteText(strings.TrimSpace(req.userComment+" query_id="+req.queryID+" driftline:"+token)))
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
	if what.Class == chdb.ReadOnly && selects && !req.waitEnd {
		if j := newJoiner(req.format); j != nil && joinable(j, req.statement.sql, req.settings) {
			return s.stream(ctx, conn, req, rep, j)
		}
	}
	return s.whole(ctx, conn, req, rep)
}

// whole runs a statement whose result is held until it is complete.
func (s *Server) whole(_ context.Context, conn *chdb.Conn, req *request, rep *reply) error {
	r, err := conn.Query(req.statement.sql, req.format, req.params)
	if err != nil {
		return err
	}
	defer r.Destroy()
	ended := len(r.Bytes()) == 0
	next := func() ([]byte, error) {
		if ended {
			return nil, io.EOF
		}
		ended = true
		return r.Bytes(), nil
	}
	return s.send(req, rep, next, func() chdb.Stats { return r.Stats() })
}

// stream sends a result while it is made. The counters in its head are those of the first piece.
func (s *Server) stream(ctx context.Context, conn *chdb.Conn, req *request, rep *reply, j joiner) error {
	p := &pieces{server: s, ctx: ctx, joiner: j, begun: rep.begun}
	var err error
	if p.stream, err = conn.Stream(req.statement.sql, req.format, req.params); err != nil {
		return err
	}
	first, err := p.next()
	if _, plain := j.(plainJoiner); errors.Is(err, io.EOF) && !plain {
		// Nothing was there to have a head, which an empty result in this format has too.
		p.close()
		return s.whole(ctx, conn, req, rep)
	}
	defer p.close()
	next := func() ([]byte, error) {
		if first != nil || err != nil {
			b, e := first, err
			first, err = nil, nil
			return b, e
		}
		return p.next()
	}
	return s.send(req, rep, next, func() chdb.Stats { return p.stats })
}

// pieces are a streamed result's parts.
type pieces struct {
	server  *Server
	ctx     context.Context
	stream  *chdb.Stream
	joiner  joiner
	begun   time.Time
	current *chdb.Result
	parts   [][]byte
	stats   chdb.Stats
	ended   bool
	any     bool
}

// next returns the next part, valid until the next call; io.EOF after the last.
func (p *pieces) next() ([]byte, error) {
	for len(p.parts) == 0 {
		if p.ended {
			return nil, io.EOF
		}
		if p.current != nil {
			p.current.Destroy()
			p.current = nil
		}
		if p.ctx.Err() != nil {
			return nil, context.Cause(p.ctx)
		}
		piece, err := p.stream.Next()
		if err != nil {
			return nil, err
		}
		if piece == nil {
			p.ended = true
			if !p.any {
				return nil, io.EOF
			}
			if end := p.joiner.end(totals{p.stats.StorageRows, p.stats.StorageBytes, time.Since(p.begun)}); end != nil {
				return end, nil
			}
			return nil, io.EOF
		}
		p.current, p.any = piece, true
		stats := piece.Stats()
		p.stats.ResultRows += stats.ResultRows
		p.stats.ResultBytes += stats.ResultBytes
		p.stats.StorageRows += stats.StorageRows
		p.stats.StorageBytes += stats.StorageBytes
		if p.parts, err = p.joiner.piece(piece.Bytes(), stats.ResultRows); err != nil {
			return nil, err
		}
	}
	part := p.parts[0]
	p.parts = p.parts[1:]
	return part, nil
}

// close ends the statement in the engine if it still runs.
func (p *pieces) close() {
	if p.current != nil {
		p.current.Destroy()
		p.current = nil
	}
	p.stream.Close()
}

// send writes the pieces out, in new frames where the client asked for them.
func (s *Server) send(req *request, rep *reply, next func() ([]byte, error), stats func() chdb.Stats) error {
	if req.format == "Native" && req.nativeRevision > 0 {
		next = newReframer(next, req.nativeRevision).block
	}
	for {
		piece, err := next()
		if errors.Is(err, io.EOF) {
			return rep.finish(stats())
		}
		if err != nil {
			return err
		}
		if !rep.started {
			rep.start(stats(), false)
		}
		if _, err := rep.Write(piece); err != nil {
			return fmt.Errorf("%w: %w", errClientGone, err)
		}
		rep.flush()
	}
}

// pieceBuffers holds the buffers between bodies and the engine.
var pieceBuffers = sync.Pool{New: func() any { b := make([]byte, 1<<20); return &b }}

// pieceReader is a body that already lies in memory in large pieces.
type pieceReader interface {
	next() ([]byte, error)
}

func (s *Server) insert(ctx context.Context, conn *chdb.Conn, req *request, rep *reply) error {
	ins, err := conn.Insert(req.statement.sql, req.format, req.params)
	if err != nil {
		return err
	}
	defer ins.Close()
	pieces, ok := req.data.(pieceReader)
	if !ok {
		buffer := pieceBuffers.Get().(*[]byte)
		defer pieceBuffers.Put(buffer)
		pieces = &filler{req.data, *buffer, false}
	}
	var received uint64
	for {
		piece, err := pieces.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			// The body is not whole: nothing of it may be committed.
			return bodyError(err)
		}
		received += uint64(len(piece))
		if failure := ins.Append(piece); failure != nil {
			return s.insertFailure(ins, failure)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
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

// filler makes large pieces of a body's reads. Unlike io.ReadFull it keeps a body's plain end (io.EOF) apart from one that
// broke off (io.ErrUnexpectedEOF), which must not be committed.
type filler struct {
	r      io.Reader
	buffer []byte
	ended  bool
}

func (f *filler) next() ([]byte, error) {
	n := 0
	for n < len(f.buffer) && !f.ended {
		m, err := f.r.Read(f.buffer[n:])
		n += m
		if err == io.EOF {
			f.ended = true
		} else if err != nil {
			return nil, err
		}
	}
	if n == 0 {
		return nil, io.EOF
	}
	return f.buffer[:n], nil
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
