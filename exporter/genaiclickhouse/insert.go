package genaiclickhouse

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"driftline/exporter/genaiclickhouse/internal/block"
	"driftline/internal/rows"
)

// insert is one INSERT: a block of rows of one table.
type insert struct {
	table rows.Table
	rows  int
	block *block.Block
}

// inserts makes one insert per table that has rows, in writeOrder.
func (o *collected) inserts() []insert {
	var out []insert
	for _, table := range writeOrder {
		var b *block.Block
		if table == tableSpans {
			b = o.spans.Block
		} else if t := o.rows[table]; t != nil {
			b = t.Block
		}
		if b != nil && b.Rows() > 0 {
			stamp(b, o.now)
			out = append(out, insert{table: table, rows: b.Rows(), block: b})
		}
	}
	return out
}

// stamp fills the column ingested_at, which is every block's last.
func stamp(b *block.Block, now time.Time) {
	columns := b.Columns()
	ingested := columns[len(columns)-1].(*block.Number[int64])
	for row := range b.Rows() {
		ingested.Set(row, now.UnixMilli())
	}
}

// settings make an acknowledgement mean stored: no server-side buffer, no background
// forwarding to shards, and over HTTP no answer before the end. The token lets the server
// drop a batch it has already stored. Keys that occur twice in a block are left to merges
// and to FINAL, which has to deal with them anyway: to look for them at each insert took
// most of the server's time.
func (in *insert) settings(content block.Digest) clickhouse.Settings {
	return clickhouse.Settings{
		"async_insert":                  0,
		"insert_deduplicate":            1,
		"insert_deduplication_token":    "driftline-" + content.String(),
		"distributed_foreground_insert": 1,
		"optimize_on_insert":            0,
		"wait_end_of_query":             1,
		"log_comment":                   "driftline genaiclickhouse " + string(in.table),
	}
}

// statement is the INSERT's text; names come from the program and the validated database.
func (in *insert) statement(database string) string {
	return "INSERT INTO " + database + "." + string(in.table) + "_base (" + names(in.block.Columns()) + ")"
}

// writer sends inserts over one kind of connection.
type writer struct {
	conn driver.Conn
	// http says that the connection takes blocks as they are; compression is theirs.
	http        bool
	compression Compression
	database    string
}

// send runs the insert and returns after ClickHouse has stored it.
func (w *writer) send(ctx context.Context, in *insert) error {
	// The buffer is not kept for the next block: after an error the HTTP transport may still
	// be reading it.
	buf := proto.Buffer{Buf: make([]byte, 0, in.block.Size())}
	content := in.block.Encode(&buf, columnIngestedAt)
	settings := in.settings(content)
	if !w.http {
		return w.sendColumns(clickhouse.Context(ctx, clickhouse.WithSettings(settings)), in)
	}
	body, err := w.compressed(buf.Buf)
	if err != nil {
		return &columnError{table: in.table, column: "all", err: err}
	}
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(settings))
	return w.conn.InsertFormat(ctx, "Native", in.statement(w.database), bytes.NewReader(body))
}

// sendColumns hands the columns to clickhouse-go, which encodes them for the server's
// version of the native protocol.
func (w *writer) sendColumns(ctx context.Context, in *insert) error {
	batch, err := w.conn.PrepareBatch(ctx, in.statement(w.database))
	if err != nil {
		return err
	}
	defer batch.Close()
	for i, column := range in.block.Columns() {
		if err := batch.Column(i).Append(column.Values()); err != nil {
			return &columnError{table: in.table, column: column.Name(), err: err}
		}
	}
	return batch.Send()
}

// frameBytes is how much of a block is compressed at a time, as ClickHouse does by default.
const frameBytes = 1 << 20

var compressMethods = map[Compression]compress.Method{CompressionLZ4: compress.LZ4, CompressionZSTD: compress.ZSTD}

// framed marks requests whose body is in frames. That cannot be one of the insert's
// settings, since clickhouse-go sends those also with the query that greets a new
// connection, whose body is plain. An insert's statement is in the URL, a query's in the body.
type framed struct{ *http.Transport }

func (f framed) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	if !query.Has("query") {
		return f.Transport.RoundTrip(r)
	}
	query.Set("decompress", "1")
	r = r.Clone(r.Context())
	r.URL.RawQuery = query.Encode()
	return f.Transport.RoundTrip(r)
}

// compressed wraps an encoded block in ClickHouse's own frames.
func (w *writer) compressed(data []byte) ([]byte, error) {
	if w.compression == CompressionNone {
		return data, nil
	}
	c := compress.NewWriter(0, compressMethods[w.compression])
	out := make([]byte, 0, len(data)/3+frameBytes)
	for len(data) > 0 {
		n := min(len(data), frameBytes)
		if err := c.Compress(data[:n]); err != nil {
			return nil, err
		}
		out, data = append(out, c.Data...), data[n:]
	}
	return out, nil
}
