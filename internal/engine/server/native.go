package server

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	chproto "github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"
)

// reframer turns Native blocks of revision 0, which the engine writes, into those of the revision that a client asked
// for. The columns' bytes are the same in both; only the frame around them differs. So each column is decoded to find
// its end and to check it, and then copied as it is.
type reframer struct {
	revision uint64
	context  column.ServerContext
	out      bytes.Buffer

	source  *recorder
	buffer  *bufio.Reader
	decoder *chproto.Reader
	frame   []byte
}

// recorder is a reader over the pieces that keeps what was read until it is released.
type recorder struct {
	next     func() ([]byte, error)
	piece    []byte
	recorded []byte
}

func (r *recorder) Read(p []byte) (int, error) {
	for len(r.piece) == 0 {
		piece, err := r.next()
		if err != nil {
			return 0, err
		}
		r.piece = piece
	}
	n := copy(p, r.piece)
	r.piece = r.piece[n:]
	r.recorded = append(r.recorded, p[:n]...)
	return n, nil
}

// newReframer reads pieces from next, which returns io.EOF at the end; a piece is used up before next is called again.
func newReframer(next func() ([]byte, error), revision uint64) *reframer {
	r := &reframer{revision: revision, source: &recorder{next: next}}
	// The decoder adopts a bufio.Reader that is large enough, so that what it has consumed can be told from its fill.
	r.buffer = bufio.NewReaderSize(r.source, 256<<10)
	r.decoder = chproto.NewReader(r.buffer)
	r.context = column.ServerContext{Revision: revision, VersionMajor: 26, VersionMinor: 7, Timezone: time.UTC}
	return r
}

// consumed is the number of recorded bytes that the decoder has taken.
func (r *reframer) consumed() int { return len(r.source.recorded) - r.buffer.Buffered() }

// block returns the next block in its new frame, valid until the next call, or io.EOF when there is none left.
func (r *reframer) block() ([]byte, error) {
	r.out.Reset()
	r.release()
	if _, err := r.buffer.Peek(1); err != nil {
		return nil, err
	}
	if err := r.reframe(); err != nil {
		return nil, err
	}
	return r.out.Bytes(), nil
}

func (r *reframer) reframe() error {
	columns, err := r.decoder.UVarInt()
	if err != nil {
		return fmt.Errorf("native block: %w", noEOF(err))
	}
	rows, err := r.decoder.UVarInt()
	if err != nil {
		return fmt.Errorf("native block: %w", noEOF(err))
	}
	r.frame = r.frame[:0]
	if r.revision > 0 {
		// Block info: field 1 is_overflows = false, field 2 bucket_num = -1, end.
		r.frame = append(r.frame, 1, 0, 2, 0xff, 0xff, 0xff, 0xff, 0)
	}
	r.frame = binary.AppendUvarint(r.frame, columns)
	r.frame = binary.AppendUvarint(r.frame, rows)
	r.out.Write(r.frame)
	for range columns {
		if err := r.column(int(rows)); err != nil {
			return err
		}
	}
	return nil
}

func (r *reframer) column(rows int) error {
	r.release()
	name, err := r.decoder.Str()
	if err != nil {
		return fmt.Errorf("native column name: %w", noEOF(err))
	}
	typeName, err := r.decoder.Str()
	if err != nil {
		return fmt.Errorf("native type of column %q: %w", name, noEOF(err))
	}
	head := r.consumed()
	r.out.Write(r.source.recorded[:head])
	if r.revision >= proto.DBMS_MIN_REVISION_WITH_CUSTOM_SERIALIZATION {
		// No custom serialization.
		r.out.WriteByte(0)
	}
	if rows == 0 {
		return nil
	}
	col, err := column.Type(typeName).Column(name, &r.context)
	if err != nil {
		return fmt.Errorf("column %q has type %s, which Native over this endpoint cannot carry (cast it in the query, or ask for another format): %w", name, typeName, err)
	}
	if prefix, ok := col.(column.CustomSerialization); ok {
		if err := prefix.ReadStatePrefix(r.decoder); err != nil {
			return fmt.Errorf("native column %q (%s): %w", name, typeName, noEOF(err))
		}
	}
	if err := col.Decode(r.decoder, rows); err != nil {
		return fmt.Errorf("native column %q (%s): %w", name, typeName, noEOF(err))
	}
	r.out.Write(r.source.recorded[head:r.consumed()])
	return nil
}

// release drops what was consumed and written.
func (r *reframer) release() {
	n := r.consumed()
	r.source.recorded = r.source.recorded[:copy(r.source.recorded, r.source.recorded[n:])]
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
