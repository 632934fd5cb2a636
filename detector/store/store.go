package store

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"driftline/detector/stats"
)

// ErrNotFound is wrapped when an alert or a trace asked for by id does not exist.
var ErrNotFound = errors.New("not found")

// Store reads and writes driftline's tables. It is safe for concurrent use.
type Store struct {
	conn driver.Conn
	db   string
	// found remembers when the traces last asked for were.
	found traceTimes
}

var databaseName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// New makes a store on an open connection. The database must be migrated; New
// itself reads nothing. A name with other than letters, digits and underscores
// is an error, since it becomes part of statements.
func New(conn driver.Conn, database string) (*Store, error) {
	if !databaseName.MatchString(database) {
		return nil, fmt.Errorf("database %q: want letters, digits and underscores", database)
	}
	return &Store{conn: conn, db: database}, nil
}

// Slice names what is judged and shown together: a kind of call, or with an empty
// Stream all requests of an agent.
type Slice struct {
	Service string `json:"service"`
	Agent   string `json:"agent"`
	Kind    string `json:"kind"`
	// Target is the model or the tool; empty for requests.
	Target string `json:"target,omitempty"`
	// Stream is yes, no or unknown; empty for requests.
	Stream string `json:"stream,omitempty"`
}

// IsRequest says whether the slice is of requests, not of operations.
func (s Slice) IsRequest() bool { return s.Stream == "" }

// String is a short name for people, without the service.
func (s Slice) String() string {
	switch {
	case s.IsRequest():
		return s.Agent + " requests"
	case s.Stream == "yes":
		return fmt.Sprintf("%s %s (streamed) of %s", s.Kind, s.Target, s.Agent)
	}
	return fmt.Sprintf("%s %s of %s", s.Kind, s.Target, s.Agent)
}

// Measure is a rollup's summary of one duration: how many values are known, their
// sum, and their histogram in milliseconds.
type Measure struct {
	N     uint64
	SumNS int64
	Hist  *stats.Hist
}

// Add merges o into m.
func (m *Measure) Add(o Measure) {
	m.N += o.N
	m.SumNS += o.SumNS
	if m.Hist == nil {
		m.Hist = &stats.Hist{}
	}
	m.Hist.Merge(o.Hist)
}

// MeanMS is the mean in milliseconds, 0 without values.
func (m Measure) MeanMS() float64 {
	if m.N == 0 {
		return 0
	}
	return float64(m.SumNS) / float64(m.N) / 1e6
}

// finalSettings lets the views' reads filter by the sort key before they put revisions
// together, which changes no answer, since all revisions of a key have that key.
const finalSettings = " SETTINGS optimize_move_to_prewhere_if_final = 1"

func query[T any](ctx context.Context, s *Store, what, sql string, args []any, dest func(*T) []any, finish func(*T)) ([]T, error) {
	return folded(ctx, s, what, sql, args, dest, finish, nil)
}

// folded is query with rows added up: add, if any, adds a row to the sum before it, or says
// that it is not of that. Adding histograms up here takes a tenth of what the engine's sumMap
// takes, of which most is spent on groups of one row.
func folded[T any](ctx context.Context, s *Store, what, sql string, args []any, dest func(*T) []any, finish func(*T), add func(sum, row *T) bool) ([]T, error) {
	rs, err := s.conn.Query(ctx, sql+finalSettings, args...)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	defer rs.Close()
	var out []T
	for rs.Next() {
		if len(out) == cap(out) {
			out = slices.Grow(out, len(out)+64) // twice as much: rows are large, and append copies more often
		}
		out = out[:len(out)+1] // what lies beyond the length is zero
		row := &out[len(out)-1]
		if err := rs.Scan(dest(row)...); err != nil {
			return nil, fmt.Errorf("read %s: %w", what, err)
		}
		if finish != nil {
			finish(row)
		}
		if add != nil && len(out) > 1 && add(&out[len(out)-2], row) {
			var zero T
			*row = zero
			out = out[:len(out)-1]
		}
	}
	if err := rs.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return out, nil
}

func between(from, to time.Time) []any {
	return []any{clickhouse.Named("from", from.Unix()), clickhouse.Named("to", to.Unix())}
}

// minuteBetween bounds rollups, endedBetween base tables, to [from, to).
const (
	minuteBetween = "minute >= toDateTime(@from, 'UTC') AND minute < toDateTime(@to, 'UTC')"
	endedBetween  = "ended_at >= toDateTime(@from, 'UTC') AND ended_at < toDateTime(@to, 'UTC')"
)

// where bounds a read to a slice.
func (s Slice) where() (string, []any) {
	sql := "service_name = @service AND agent = @agent AND kind = @kind"
	args := []any{clickhouse.Named("service", s.Service), clickhouse.Named("agent", s.Agent), clickhouse.Named("kind", s.Kind)}
	if !s.IsRequest() {
		sql += " AND target = @target AND stream = @stream"
		args = append(args, clickhouse.Named("target", s.Target), clickhouse.Named("stream", s.Stream))
	}
	return sql, args
}
