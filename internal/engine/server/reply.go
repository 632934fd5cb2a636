package server

import (
	"compress/gzip"
	"compress/zlib"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"driftline/internal/chdb"
)

// frameBytes is the most that goes into one compressed frame, ClickHouse's own default.
const frameBytes = 1 << 20

// reply writes one response: the head with the first bytes, so that an error before them still has its own status.
type reply struct {
	w       http.ResponseWriter
	req     *request
	started bool
	tag     string
	out     io.Writer
	encoder io.WriteCloser
	frames  *compress.Writer
	begun   time.Time
}

func newReply(w http.ResponseWriter, req *request, encoding string, begun time.Time) *reply {
	var tag [8]byte
	_, _ = rand.Read(tag[:])
	r := &reply{w: w, req: req, tag: hex.EncodeToString(tag[:]), out: w, begun: begun}
	req.encoding = encoding
	return r
}

// acceptedEncoding picks the reply's Content-Encoding; none for replies in compressed frames.
func acceptedEncoding(r *http.Request, q url.Values) string {
	if truthy(q.Get("compress")) || q.Get("enable_http_compression") != "" && !truthy(q.Get("enable_http_compression")) {
		return ""
	}
	accept := strings.ToLower(r.Header.Get("Accept-Encoding"))
	for _, name := range []string{"zstd", "lz4", "br", "gzip", "deflate"} {
		for part := range strings.SplitSeq(accept, ",") {
			coding, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
			weight = strings.ReplaceAll(weight, " ", "")
			if strings.TrimSpace(coding) == name && weight != "q=0" && weight != "q=0.0" {
				return name
			}
		}
	}
	return ""
}

func (r *reply) start(stats chdb.Stats, empty bool) {
	r.started = true
	h := r.w.Header()
	h.Set("Content-Type", contentType(r.req.format))
	h.Set("X-ClickHouse-Format", r.req.format)
	h.Set("X-ClickHouse-Exception-Tag", r.tag)
	h.Set("X-ClickHouse-Summary", summary(stats, time.Since(r.begun)))
	if empty {
		h.Set("Content-Length", "0")
		r.w.WriteHeader(http.StatusOK)
		return
	}
	if r.req.encoding != "" {
		h.Set("Content-Encoding", r.req.encoding)
		h.Add("Vary", "Accept-Encoding")
		r.encoder = encoder(r.w, r.req.encoding)
		r.out = r.encoder
	}
	if r.req.compress {
		r.frames = compress.NewWriter(compress.LevelZero, r.req.method)
	}
	r.w.WriteHeader(http.StatusOK)
}

func encoder(w io.Writer, name string) io.WriteCloser {
	switch name {
	case "zstd":
		// The options are constants that the library accepts, so there is no error to report.
		e, _ := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
		return e
	case "lz4":
		return lz4.NewWriter(w)
	case "br":
		return brotli.NewWriterLevel(w, 1)
	case "deflate":
		e, _ := zlib.NewWriterLevel(w, zlib.BestSpeed)
		return e
	}
	e, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
	return e
}

// Write sends result bytes after the head.
func (r *reply) Write(p []byte) (int, error) {
	if r.frames == nil {
		return r.out.Write(p)
	}
	for done := 0; done < len(p); done += frameBytes {
		part := p[done:min(done+frameBytes, len(p))]
		if err := r.frames.Compress(part); err != nil {
			return done, fmt.Errorf("compress the reply: %w", err)
		}
		if _, err := r.out.Write(r.frames.Data); err != nil {
			return done, err
		}
	}
	return len(p), nil
}

func (r *reply) flush() {
	if f, ok := r.encoder.(interface{ Flush() error }); ok {
		_ = f.Flush()
	}
	_ = http.NewResponseController(r.w).Flush()
}

// finish ends a good reply.
func (r *reply) finish(stats chdb.Stats) error {
	if !r.started {
		r.start(stats, true)
	}
	if r.encoder != nil {
		return r.encoder.Close()
	}
	return nil
}

// fail ends a reply with an exception: as a reply of its own while nothing was sent, otherwise in ClickHouse's framing
// inside the data, after which the connection is cut so that no client takes the part for the whole.
func (r *reply) fail(e *chdb.Error) {
	if !r.started {
		writeException(r.w, e)
		return
	}
	text := e.Error()
	block := "\r\n__exception__\r\n" + r.tag + "\r\n" + text + "\n" + strconv.Itoa(len(text)+1) + " " + r.tag + "\r\n__exception__\r\n"
	_, _ = r.Write([]byte(block))
	r.flush()
	panic(http.ErrAbortHandler)
}

// writeException replies with an exception in ClickHouse's form.
func writeException(w http.ResponseWriter, e *chdb.Error) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=UTF-8")
	h.Set("X-ClickHouse-Exception-Code", strconv.Itoa(e.Code))
	if e.Name != "" {
		h.Set("X-ClickHouse-Exception-Name", e.Name)
	}
	status := statusOf(e.Code)
	if status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, e.Error()+"\n")
}

func summary(s chdb.Stats, elapsed time.Duration) string {
	n := func(v uint64) string { return strconv.FormatUint(v, 10) }
	text, _ := json.Marshal(map[string]string{
		"read_rows": n(s.StorageRows), "read_bytes": n(s.StorageBytes),
		"written_rows": n(s.WrittenRows), "written_bytes": n(s.WrittenBytes),
		"total_rows_to_read": "0", "result_rows": n(s.ResultRows), "result_bytes": n(s.ResultBytes),
		"elapsed_ns": strconv.FormatInt(elapsed.Nanoseconds(), 10),
	})
	return string(text)
}
