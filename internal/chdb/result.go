//go:build linux || darwin

package chdb

import "unsafe"

// Result is a finished piece of work: data in the asked format and counters. Destroy frees it.
type Result struct {
	lib    *Library
	handle uintptr
}

// Stats are the counters the engine reports with a result; bytes are the engine's own in-memory sizes.
type Stats struct {
	ResultRows, ResultBytes   uint64
	StorageRows, StorageBytes uint64
	WrittenRows, WrittenBytes uint64
}

// Bytes returns the result's data in C memory, valid until Destroy.
func (r *Result) Bytes() []byte {
	n := r.lib.fn.resultLength(r.handle)
	p := r.lib.fn.resultBuffer(r.handle)
	if n == 0 || p == nil {
		return nil
	}
	return unsafe.Slice(p, int(n))
}

// Stats returns the result's counters.
func (r *Result) Stats() Stats {
	f := &r.lib.fn
	return Stats{
		ResultRows: f.resultRows(r.handle), ResultBytes: f.resultBytes(r.handle),
		StorageRows: f.storageRowsRead(r.handle), StorageBytes: f.storageBytesRead(r.handle),
		WrittenRows: f.rowsWritten(r.handle), WrittenBytes: f.bytesWritten(r.handle),
	}
}

// Destroy frees the result; its data must not be used afterwards. A second call does nothing.
func (r *Result) Destroy() {
	if r.handle != 0 {
		r.lib.fn.destroyResult(r.handle)
		r.handle = 0
	}
}

// Stream is a running statement whose result is fetched in pieces.
type Stream struct {
	conn   *Conn
	handle uintptr
	ended  bool
}

// Next returns the next piece, which the caller must Destroy, or nil at the end. An error is an [*Error] and ends the
// stream.
func (s *Stream) Next() (*Result, error) {
	if s.ended {
		return nil, nil
	}
	r, err := s.conn.wrap(s.conn.lib.fn.streamFetch(*s.conn.handle, s.handle))
	if err != nil {
		s.ended = true
		return nil, err
	}
	if s.conn.lib.fn.resultLength(r.handle) == 0 {
		s.ended = true
		r.Destroy()
		return nil, nil
	}
	return r, nil
}

// Close cancels the statement if it has not ended, and frees the stream.
func (s *Stream) Close() {
	if s.handle == 0 {
		return
	}
	if !s.ended {
		s.conn.lib.fn.streamCancel(*s.conn.handle, s.handle)
	}
	s.conn.lib.fn.destroyResult(s.handle)
	s.handle = 0
}

// Insert is a running INSERT that takes its data in pieces.
type Insert struct {
	conn   *Conn
	handle uintptr
	done   bool
}

// Append hands a piece of data to the engine, which copies it; pieces need not end at row or block borders. It blocks
// while the engine is behind.
func (i *Insert) Append(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if i.conn.lib.fn.streamAppend(i.handle, &data[0], uintptr(len(data))) != 0 {
		if text := i.conn.lib.fn.insertError(i.handle); text != "" {
			return ParseError(text)
		}
		return ParseError("the engine refused a piece of the insert without saying why")
	}
	return nil
}

// Done says that all data is there, waits for it to be stored and returns the counters.
func (i *Insert) Done() (Stats, error) {
	i.done = true
	r, err := i.conn.wrap(i.conn.lib.fn.streamDone(i.handle))
	if err != nil {
		return Stats{}, err
	}
	defer r.Destroy()
	return r.Stats(), nil
}

// Close cancels the insert if Done was not called, and frees it.
func (i *Insert) Close() {
	if i.handle == 0 {
		return
	}
	if !i.done {
		i.conn.lib.fn.cancelInsert(i.handle)
	}
	i.conn.lib.fn.destroyInsert(i.handle)
	i.handle = 0
}
