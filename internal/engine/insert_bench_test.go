package engine_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/compress"
	chproto "github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"

	"driftline/internal/engine/enginetest"
)

const (
	benchRows  = 50_000
	benchTable = `CREATE TABLE %s (service LowCardinality(String), at DateTime64(9, 'UTC'), trace_id String, span_id String, parent_id String,
		operation LowCardinality(String), model LowCardinality(String), region LowCardinality(String), error_class LowCardinality(String),
		ordinal UInt8, tokens_in UInt32, tokens_out UInt32, duration_ns Int64, ttft_ns Nullable(Int64), weight Float64, attempts Array(Int16),
		attributes Map(LowCardinality(String), String), revision UInt64, stored_at DateTime64(3) DEFAULT now64(3))
		ENGINE = MergeTree PARTITION BY toDate(at) ORDER BY (service, at, trace_id)`
	benchColumns = "service, at, trace_id, span_id, parent_id, operation, model, region, error_class, ordinal, tokens_in, tokens_out, duration_ns, ttft_ns, weight, attempts, attributes, revision"
)

// benchBlock is one Native block of revision 0 as the exporter sends it.
func benchBlock(b *testing.B) []byte {
	types := []string{"LowCardinality(String)", "DateTime64(9, 'UTC')", "String", "String", "String", "LowCardinality(String)", "LowCardinality(String)",
		"LowCardinality(String)", "LowCardinality(String)", "UInt8", "UInt32", "UInt32", "Int64", "Nullable(Int64)", "Float64", "Array(Int16)",
		"Map(LowCardinality(String), String)", "UInt64"}
	context := column.ServerContext{Timezone: time.UTC}
	block := proto.Block{ServerContext: &context}
	for i, name := range strings.Split(benchColumns, ", ") {
		must(b, block.AddColumn(name, column.Type(types[i])))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	hex := func(n int) string {
		const digits = "0123456789abcdef"
		out := make([]byte, n)
		for i := range out {
			out[i] = digits[rng.IntN(16)]
		}
		return string(out)
	}
	start := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for i := range benchRows {
		ttft := rng.Int64N(1e9)
		must(b, block.Append(fmt.Sprint("service-", rng.IntN(20)), start.Add(time.Duration(i)*time.Millisecond), hex(32), hex(16), hex(16), []string{"chat", "tool", "agent"}[rng.IntN(3)],
			fmt.Sprint("model-", rng.IntN(12)), fmt.Sprint("region-", rng.IntN(5)), "", uint8(1+rng.IntN(3)), rng.Uint32N(9000), rng.Uint32N(900), rng.Int64N(1e10), &ttft, 1.0,
			[]int16{1, int16(rng.IntN(4))}, map[string]string{"gen_ai.request.model": fmt.Sprint("model-", rng.IntN(12)), "http.status": "200"}, uint64(i)))
	}
	buffer := new(chproto.Buffer)
	must(b, block.Encode(buffer, 0))
	return buffer.Buf
}

// goTime is the user and system time of those threads of a process that keep the engine program's name; on Linux only.
func goTime(b *testing.B, pid int) (sum time.Duration) {
	b.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	must(b, err)
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil || !bytes.Contains(text, []byte("(engine-")) {
			continue // ended meanwhile, or the engine's
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+2:]))
		user, _ := strconv.Atoi(fields[11])
		system, _ := strconv.Atoi(fields[12])
		sum += time.Duration(user+system) * 10 * time.Millisecond
	}
	return sum
}

// What a 50,000-row Native insert over HTTP costs the engine process, merges that run meanwhile included. The Go side's threads are those
// that keep the program's name; the engine parses, sorts and writes on threads of its own. DRIFTLINE_BENCH_SETTINGS holds name=value
// settings of the statement, DRIFTLINE_BENCH_TABLE_SETTINGS a SETTINGS clause of the table, DRIFTLINE_BENCH_ENGINE_ARGS flags of the engine.
func BenchmarkNativeInsert(b *testing.B) {
	plain := benchBlock(b)
	one := compress.NewWriter(compress.LevelZero, compress.LZ4)
	must(b, one.Compress(plain))
	var many []byte
	for rest := plain; len(rest) > 0; {
		n := min(1<<20, len(rest))
		w := compress.NewWriter(compress.LevelZero, compress.LZ4)
		must(b, w.Compress(rest[:n]))
		many, rest = append(many, w.Data...), rest[n:]
	}
	for _, c := range []struct {
		name, engine string
		body         []byte
		params       url.Values
	}{
		{"plain", "MergeTree", plain, nil},
		{"lz4-one-frame", "MergeTree", one.Data, url.Values{"decompress": {"1"}}},
		{"lz4-1MiB-frames", "MergeTree", many, url.Values{"decompress": {"1"}}},
		{"plain-into-Null", "Null", plain, nil},
		{"lz4-one-frame-into-Null", "Null", one.Data, url.Values{"decompress": {"1"}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			e := enginetest.Start(b, strings.Fields(os.Getenv("DRIFTLINE_BENCH_ENGINE_ARGS"))...)
			create := fmt.Sprintf(benchTable, "t")
			if c.engine == "Null" {
				create = create[:strings.Index(create, "ENGINE =")] + "ENGINE = Null"
			}
			if c.engine != "Null" {
				create += os.Getenv("DRIFTLINE_BENCH_TABLE_SETTINGS")
			}
			post(b, e, nil, create)
			params := url.Values{"query": {"INSERT INTO t (" + benchColumns + ") FORMAT Native"}}
			for _, set := range strings.Fields(os.Getenv("DRIFTLINE_BENCH_SETTINGS")) {
				name, value, _ := strings.Cut(set, "=")
				params.Set(name, value)
			}
			for k, v := range c.params {
				params[k] = v
			}
			address := e.URL(b) + "/?" + params.Encode()
			insert := func() {
				resp, err := http.Post(address, "application/octet-stream", bytes.NewReader(c.body))
				must(b, err)
				text, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode != 200 {
					b.Fatalf("%d %s", resp.StatusCode, text)
				}
			}
			insert()
			total0 := processTime(b, e.PID())
			go0 := goTime(b, e.PID())
			b.ResetTimer()
			for range b.N {
				insert()
			}
			b.StopTimer()
			go1 := goTime(b, e.PID())
			total := processTime(b, e.PID()) - total0
			rows := float64(b.N) * benchRows
			b.ReportMetric(rows/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(float64(len(plain))*float64(b.N)/b.Elapsed().Seconds()/1e6, "MB/s")
			b.ReportMetric(float64(total.Nanoseconds())/rows, "cpu-ns/row")
			b.ReportMetric(float64((go1-go0).Nanoseconds())/rows, "go-threads-cpu-ns/row")
			b.ReportMetric(float64(len(plain))/benchRows, "B/row")
			b.ReportMetric(0, "ns/op")
		})
	}
}
