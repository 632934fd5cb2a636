package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/compress"

	"driftline/internal/chdb"
)

func framed(t testing.TB, method compress.Method, parts ...[]byte) []byte {
	t.Helper()
	var out []byte
	for _, part := range parts {
		w := compress.NewWriter(compress.LevelZero, method)
		if err := w.Compress(part); err != nil {
			t.Fatal(err)
		}
		out = append(out, w.Data...)
	}
	return out
}

func TestFrames(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	small, large := []byte("hello hello hello hello"), make([]byte, 5<<20)
	for i := range large {
		large[i] = byte(rng.IntN(7))
	}
	want := append(append(append([]byte(nil), small...), large...), small...)
	for name, method := range map[string]compress.Method{"none": compress.None, "lz4": compress.LZ4, "lz4hc": compress.LZ4HC, "zstd": compress.ZSTD} {
		body := framed(t, method, small, large, nil, small)
		f := newFrameReader(&ragged{bytes.NewReader(body), rng})
		got, err := io.ReadAll(f)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s, read: %d bytes of %d, %v", name, len(got), len(want), err)
		}
		f.release()
		// A part by reading, the rest in pieces.
		f = newFrameReader(bytes.NewReader(body))
		got = make([]byte, 10)
		if _, err := io.ReadFull(f, got); err != nil {
			t.Fatal(err)
		}
		for {
			piece, err := f.next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got = append(got, piece...)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s, in pieces: %d bytes of %d", name, len(got), len(want))
		}
		f.release()
		one := framed(t, method, small)
		for cut := 1; cut < len(one); cut++ {
			if _, err := io.ReadAll(newFrameReader(bytes.NewReader(one[:cut]))); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("%s cut after %d bytes: %v, want an unexpected end", name, cut, err)
			}
		}
		for i := range one {
			damaged := append([]byte(nil), one...)
			damaged[i] ^= 0x55
			if got, err := io.ReadAll(newFrameReader(bytes.NewReader(damaged))); err == nil {
				t.Fatalf("%s with byte %d damaged: %q and no error", name, i, got)
			}
		}
	}
}

// What a head claims takes no memory before it has come.
func TestFrameClaimsTakeNoMemory(t *testing.T) {
	head := make([]byte, frameChecksum+frameHead)
	head[frameChecksum] = methodLZ4
	binary.LittleEndian.PutUint32(head[17:], 100<<20)
	binary.LittleEndian.PutUint32(head[21:], 100<<20)
	f := newFrameReader(bytes.NewReader(head))
	f.buffers = new(frameBuffers)
	if _, err := f.next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a frame without data: %v", err)
	}
	if kept := cap(f.buffers.packed) + cap(f.buffers.plain); kept > 2*growFrameBytes {
		t.Errorf("%d bytes were taken for it", kept)
	}
	binary.LittleEndian.PutUint32(head[17:], 1<<30)
	var e *chdb.Error
	if _, err := newFrameReader(bytes.NewReader(head)).next(); !errors.As(err, &e) || e.Code != codeChecksum || !strings.Contains(e.Message, "decompress=1") {
		t.Errorf("a frame beyond the limit: %v", err)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(framed(f, compress.LZ4, []byte("some rows")))
	f.Add(framed(f, compress.ZSTD, []byte("some rows")))
	f.Fuzz(func(t *testing.T, body []byte) {
		r := newFrameReader(bytes.NewReader(body))
		_, _ = io.Copy(io.Discard, r)
		r.release()
	})
}

// ragged reads in pieces of random length.
type ragged struct {
	r   io.Reader
	rng *rand.Rand
}

func (r *ragged) Read(p []byte) (int, error) {
	return r.r.Read(p[:min(len(p), 1+r.rng.IntN(1<<20))])
}

func TestParseKill(t *testing.T) {
	params := []chdb.Param{{Name: "id", Value: "p'q"}}
	for sql, want := range map[string]string{
		"KILL QUERY WHERE query_id = 'a'":                     "a",
		"kill query where query_id == 'a' sync":               "a sync",
		"KILL QUERY WHERE query_id IN ('a', 'b') TEST":        "a,b test",
		"KILL QUERY WHERE query_id = {id:String} FORMAT JSON": "p'q",
		"KILL QUERY WHERE query_id = 'it''s' ASYNC;":          "it's",
		`KILL QUERY WHERE query_id = 'a\\b'`:                  `a\b`,
		"KILL QUERY WHERE 1":                                  "refused", "KILL QUERY": "refused", "KILL QUERY WHERE query_id = 'a' OR 1": "refused",
		"KILL QUERY WHERE query_id = x": "refused", "KILL QUERY WHERE query_id IN (": "refused", "KILL QUERY WHERE query_id =": "refused", "KILL QUERY WHERE query_id IN ()": "refused",
		"KILL MUTATION WHERE 1": "none", "SELECT 1": "none",
	} {
		st := analyse([]byte(sql))
		k, err := parseKill(&st, params)
		got := "none"
		if err != nil {
			got = "refused"
		} else if k != nil {
			got = strings.Join(k.ids, ",")
			if k.sync {
				got += " sync"
			}
			if k.test {
				got += " test"
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
}

func FuzzParseKill(f *testing.F) {
	f.Add("KILL QUERY WHERE query_id IN ('a', {b:String})")
	f.Fuzz(func(_ *testing.T, text string) {
		st := analyse([]byte(text))
		_, _ = parseKill(&st, []chdb.Param{{Name: "b", Value: "x"}})
	})
}
