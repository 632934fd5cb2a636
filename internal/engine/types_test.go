package engine_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"driftline/internal/engine/enginetest"
)

// Every column type that driftline's tables use goes in by batch and comes out the same, with each compression.
func TestTypesRoundTrip(t *testing.T) {
	e := enginetest.Shared(t)
	for _, c := range []struct {
		name   string
		method clickhouse.CompressionMethod
	}{
		{"none", clickhouse.CompressionNone}, {"lz4", clickhouse.CompressionLZ4}, {"zstd", clickhouse.CompressionZSTD},
		{"gzip", clickhouse.CompressionGZIP}, {"brotli", clickhouse.CompressionBrotli}, {"deflate", clickhouse.CompressionDeflate},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := context.Background()
			opt, err := clickhouse.ParseDSN(e.DSNFor(e.Database(t)))
			if err != nil {
				t.Fatal(err)
			}
			opt.Compression = &clickhouse.Compression{Method: c.method, Level: 1}
			conn, err := clickhouse.Open(opt)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			must(t, conn.Exec(ctx, `CREATE TABLE t (
				id UInt64, s String, lc LowCardinality(String), fs FixedString(16), u8 UInt8, u16 UInt16, u32 UInt32, i64 Int64, f Float64,
				ms DateTime64(3, 'UTC'), ns DateTime64(9, 'UTC'), a16 Array(Int16), a64 Array(UInt64), nf Nullable(Float64),
				e Enum8('one' = 1, 'two' = 2), m Map(LowCardinality(String), String), b Bool, als Array(LowCardinality(String)),
				d Date, dt DateTime('UTC'), lcn LowCardinality(Nullable(String)), tu Tuple(String, UInt8), u UUID
			) ENGINE = MergeTree ORDER BY id`))
			type row struct {
				ID        uint64
				S, LC, FS string
				U8        uint8
				U16       uint16
				U32       uint32
				I64       int64
				F         float64
				MS, NS    time.Time
				A16       []int16
				A64       []uint64
				NF        *float64
				E         string
				M         map[string]string
				B         bool
				ALS       []string
				D, DT     time.Time
				LCN       *string
				TU        []any
				UUID      string
			}
			base := time.Date(2026, 3, 4, 5, 6, 7, 123456789, time.UTC)
			value, text := 0.25, "x"
			make1 := func(i int) row {
				r := row{ID: uint64(i), S: fmt.Sprintf("s%d\x00\n'", i), LC: fmt.Sprint("lc", i%3), FS: fmt.Sprintf("%016d", i), U8: uint8(i), U16: uint16(i * 7),
					U32: uint32(i) * 1000003, I64: -int64(i), F: float64(i) / 3, MS: base.Truncate(time.Millisecond).Add(time.Duration(i) * time.Millisecond),
					NS: base.Add(time.Duration(i)), A16: make([]int16, i%4), A64: []uint64{uint64(i), 1 << 63}, E: []string{"one", "two"}[i%2],
					M: map[string]string{"k": fmt.Sprint(i), "": ""}, B: i%2 == 0, ALS: []string{"a", "b"}[:i%3%2+1], D: base.Truncate(24 * time.Hour),
					DT: base.Truncate(time.Second), TU: []any{"t", uint8(i)}, UUID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i)}
				if i%2 == 1 {
					r.NF, r.LCN = &value, &text
				}
				return r
			}
			const n = 1000
			batch, err := conn.PrepareBatch(ctx, "INSERT INTO t")
			must(t, err)
			for i := range n {
				r := make1(i)
				must(t, batch.Append(r.ID, r.S, r.LC, r.FS, r.U8, r.U16, r.U32, r.I64, r.F, r.MS, r.NS, r.A16, r.A64, r.NF, r.E, r.M, r.B, r.ALS, r.D, r.DT, r.LCN, r.TU, r.UUID))
			}
			must(t, batch.Send())
			rows, err := conn.Query(ctx, "SELECT * FROM t ORDER BY id")
			must(t, err)
			defer rows.Close()
			got := 0
			for rows.Next() {
				var r row
				must(t, rows.Scan(&r.ID, &r.S, &r.LC, &r.FS, &r.U8, &r.U16, &r.U32, &r.I64, &r.F, &r.MS, &r.NS, &r.A16, &r.A64, &r.NF, &r.E, &r.M, &r.B, &r.ALS, &r.D, &r.DT, &r.LCN, &r.TU, &r.UUID))
				if want := make1(got); !reflect.DeepEqual(r, want) {
					t.Fatalf("row %d:\n got %+v\nwant %+v", got, r, want)
				}
				got++
			}
			must(t, rows.Err())
			if got != n {
				t.Fatalf("%d rows came back, %d were acknowledged", got, n)
			}
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
