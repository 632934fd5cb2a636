package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-faster/city"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"driftline/internal/chdb"
)

// A frame of ClickHouse's compressed transport: a checksum over the rest, the method, the sizes with and without compression,
// the data. A client may put a whole insert into one frame.
const (
	frameChecksum  = 16
	frameHead      = 9
	maxFrameBytes  = 128 << 20
	keptFrameBytes = 32 << 20
	growFrameBytes = 4 << 20
)

const (
	methodNone = 0x02
	methodLZ4  = 0x82
	methodZSTD = 0x90
)

// frameBuffers are reused from one request to the next: an insert's frames are large.
type frameBuffers struct{ packed, plain []byte }

var framePool = sync.Pool{New: func() any { return new(frameBuffers) }}

// zstdFrames decodes whole frames, for any number of requests at once.
var zstdFrames = func() *zstd.Decoder {
	// The options are constants that the library accepts, so there is no error to report.
	d, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxFrameBytes))
	return d
}()

// frameReader undoes the frames of a body. Whoever takes pieces rather than reading saves a copy.
type frameReader struct {
	r       io.Reader
	head    [frameChecksum + frameHead]byte
	buffers *frameBuffers
	rest    []byte
}

func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{r: r, buffers: framePool.Get().(*frameBuffers)}
}

// release gives the buffers back; the reader and its pieces must not be used afterwards.
func (f *frameReader) release() {
	if f.buffers != nil && cap(f.buffers.packed)+cap(f.buffers.plain) <= 2*keptFrameBytes {
		framePool.Put(f.buffers)
	}
	f.buffers, f.rest = nil, nil
}

func (f *frameReader) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		piece, err := f.next()
		if err != nil {
			return 0, err
		}
		f.rest = piece
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// next returns what has not been read yet of the body's present frame, or else the next one; it is valid until the next
// call. At the end it returns io.EOF.
func (f *frameReader) next() ([]byte, error) {
	if piece := f.rest; len(piece) > 0 {
		f.rest = nil
		return piece, nil
	}
	for {
		piece, err := f.frame()
		if err != nil || len(piece) > 0 {
			return piece, err
		}
	}
}

func (f *frameReader) frame() ([]byte, error) {
	if _, err := io.ReadFull(f.r, f.head[:]); err != nil {
		return nil, err // io.EOF between frames, io.ErrUnexpectedEOF within a head
	}
	packed := int(binary.LittleEndian.Uint32(f.head[17:21]))
	plain := int(binary.LittleEndian.Uint32(f.head[21:25]))
	if packed < frameHead || packed > maxFrameBytes || plain > maxFrameBytes {
		return nil, damagedFrame("its head says %d bytes compressed and %d plain; the most is %d (is the body compressed at all? decompress=1 says so)", packed, plain, maxFrameBytes)
	}
	if err := f.readPacked(packed); err != nil {
		return nil, err
	}
	b := f.buffers
	sum := city.CH128(b.packed)
	if sum.Low != binary.LittleEndian.Uint64(f.head[0:8]) || sum.High != binary.LittleEndian.Uint64(f.head[8:16]) {
		return nil, damagedFrame("its checksum does not match its %d bytes", packed)
	}
	data := b.packed[frameHead:]
	switch method := f.head[frameChecksum]; method {
	case methodNone:
		return data, nil
	case methodLZ4:
		if plain > 255*len(data)+64 {
			return nil, damagedFrame("%d bytes cannot become %d", len(data), plain)
		}
		b.plain = sized(b.plain, plain)
		n, err := lz4.UncompressBlock(data, b.plain)
		if err != nil || n != plain {
			return nil, damagedFrame("LZ4 gave %d of %d bytes (%v)", n, plain, err)
		}
		return b.plain, nil
	case methodZSTD:
		out, err := zstdFrames.DecodeAll(data, b.plain[:0])
		if err != nil || len(out) != plain {
			return nil, damagedFrame("ZSTD gave %d of %d bytes (%v)", len(out), plain, err)
		}
		b.plain = out
		return out, nil
	default:
		return nil, refuse(fmt.Sprintf("a body's frame is compressed by method 0x%02x: use LZ4, LZ4HC, ZSTD or NONE", method))
	}
}

// readPacked reads the part of a frame that the checksum covers. Memory grows with what has come, not with what the head claims.
func (f *frameReader) readPacked(size int) error {
	b := f.buffers
	b.packed = append(b.packed[:0], f.head[frameChecksum:]...)
	for len(b.packed) < size {
		have := len(b.packed)
		step := min(size-have, max(growFrameBytes, cap(b.packed)-have))
		b.packed = grown(b.packed, have+step)
		if n, err := io.ReadFull(f.r, b.packed[have:]); err != nil {
			b.packed = b.packed[:have+n]
			if errors.Is(err, io.EOF) {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// sized returns a slice of n bytes, whose content does not matter, in b's memory if there is enough.
func sized(b []byte, n int) []byte {
	if cap(b) >= n {
		return b[:n]
	}
	return make([]byte, n)
}

// grown returns b with n bytes, its old ones kept.
func grown(b []byte, n int) []byte {
	if cap(b) >= n {
		return b[:n]
	}
	bigger := make([]byte, n, max(n, min(2*cap(b), maxFrameBytes)))
	copy(bigger, b)
	return bigger
}

func damagedFrame(format string, args ...any) error {
	return &chdb.Error{Code: codeChecksum, Name: "CHECKSUM_DOESNT_MATCH", Message: "A compressed frame of the body is damaged: " + fmt.Sprintf(format, args...)}
}
