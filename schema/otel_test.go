package schema

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"
)

// traceQuery has the shape that Grafana's ClickHouse datasource sends for a trace id when
// its configuration says that the table has OTel columns: the window comes from the table
// with the suffix _trace_id_ts, then the columns are given the names of the trace panel.
func traceQuery(database, traceID string) string {
	traces := `"` + database + `"."otel_traces"`
	window := `"` + database + `"."otel_traces_trace_id_ts" WHERE TraceId = trace_id`
	tags := func(column, as string) string {
		return fmt.Sprintf(`arrayMap(key -> map('key', key, 'value', "%s"[key]), mapKeys("%s")) as %s`, column, column, as)
	}
	return `WITH '` + traceID + `' as trace_id,
		(SELECT min(Start) FROM ` + window + `) as trace_start,
		(SELECT max(End) + 1 FROM ` + window + `) as trace_end
	SELECT "TraceId" as traceID, "SpanId" as spanID, "ParentSpanId" as parentSpanID, "ServiceName" as serviceName, "SpanName" as operationName,
		multiply(toUnixTimestamp64Nano("Timestamp"), 0.000001) as startTime, multiply("Duration", 0.000001) as duration,
		` + tags("SpanAttributes", "tags") + `, ` + tags("ResourceAttributes", "serviceTags") + `,
		if("StatusCode" IN ('Error', 'STATUS_CODE_ERROR'), 2, 0) as statusCode,
		arrayMap((name, timestamp, attributes) -> tuple(name, toString(toUnixTimestamp64Milli(timestamp)), arrayMap(key -> map('key', key, 'value', attributes[key]), mapKeys(attributes)))::Tuple(name String, timestamp String, fields Array(Map(String, String))), "Events".Name, "Events".Timestamp, "Events".Attributes) AS logs,
		arrayMap((traceID, spanID, attributes) -> tuple(traceID, spanID, arrayMap(key -> map('key', key, 'value', attributes[key]), mapKeys(attributes)))::Tuple(traceID String, spanID String, tags Array(Map(String, String))), "Links".TraceId, "Links".SpanId, "Links".Attributes) AS references,
		"SpanKind" as kind, "StatusMessage" as statusMessage, "ScopeName" as instrumentationLibraryName, "ScopeVersion" as instrumentationLibraryVersion, "TraceState" as traceState
	FROM ` + traces + ` WHERE traceID = trace_id AND "Timestamp" >= trace_start AND "Timestamp" <= trace_end LIMIT 1000`
}

// C61: a link from an alert or a panel opens the trace by its id, with exactly its spans,
// through column names that a tool knows without being told.
func TestC61ATraceOpensByIDThroughOTelColumnNames(t *testing.T) {
	ctx, conn, o := migrated(t)
	// 200,000 spans of 20,000 other traces over two days and 20 services.
	require.NoError(t, conn.Exec(ctx, "INSERT INTO "+o.Database+`.spans_base (service_name, trace_id, span_id, name, kind, started_at, duration_ns, status_code, ingested_at)
		SELECT concat('service-', toString(number % 20)), lower(hex(sipHash128(intDiv(number, 10)))), lower(hex(cityHash64(number))), 'chat m1', 'Client',
			now64(9) - toIntervalSecond(number % 172800), 5000000, 'Ok', now64(3) FROM numbers(200000)`))
	const traceID = "0123456789abcdef0123456789abcdef"
	for _, span := range []struct {
		service, id, parent, kind, status string
		second                            int
	}{
		{"agent", "00000000000000a1", "", "Server", "Unset", 0},
		{"agent", "00000000000000a2", "00000000000000a1", "Client", "Error", 1},
		{"tools", "00000000000000b1", "00000000000000a2", "Server", "Ok", 2},
		{"agent", "00000000000000a2", "00000000000000a1", "Client", "Error", 1}, // sent again
	} {
		require.NoError(t, conn.Exec(ctx, "INSERT INTO "+o.Database+`.spans_base (service_name, trace_id, span_id, parent_span_id, name, kind, started_at, duration_ns, status_code, attributes, ingested_at)
			SELECT ?, ?, ?, ?, 'step', ?, toStartOfDay(now64(9)) + toIntervalSecond(?), 250000000, ?, map('gen_ai.request.model', 'm1'), now64(3)`,
			span.service, traceID, span.id, span.parent, span.kind, 3600+span.second, span.status))
	}

	rows, err := conn.Query(ctx, "SELECT spanID, parentSpanID, serviceName, kind, duration, statusCode, toString(tags), toString(serviceTags), startTime > 1.5e12, length(logs) + length(references) FROM ("+
		traceQuery(o.Database, traceID)+") ORDER BY startTime")
	require.NoError(t, err)
	defer rows.Close()
	var got []string
	for rows.Next() {
		var id, parent, service, kind, tags, serviceTags string
		var duration float64
		var status, recent uint8
		var extra uint64
		require.NoError(t, rows.Scan(&id, &parent, &service, &kind, &duration, &status, &tags, &serviceTags, &recent, &extra))
		got = append(got, strings.Join([]string{id, parent, service, kind, fmt.Sprint(duration, status, recent, extra), tags, serviceTags}, " "))
	}
	require.NoError(t, rows.Err())
	const tags = " [{'key':'gen_ai.request.model','value':'m1'}] [{'key':'service.name','value':'"
	require.Equal(t, []string{
		"00000000000000a1  agent Server 250 0 1 0" + tags + "agent'}]",
		"00000000000000a2 00000000000000a1 agent Client 250 2 1 0" + tags + "agent'}]",
		"00000000000000b1 00000000000000a2 tools Server 250 0 1 0" + tags + "tools'}]",
	}, got)

	t.Run("reads few granules", func(t *testing.T) {
		// The window's lookup has no time to go by: only the index over trace_id can spare it the scan.
		window := explain(t, conn, "SELECT min(Start) FROM "+o.Database+".otel_traces_trace_id_ts WHERE TraceId = '"+traceID+"'")
		require.Contains(t, window, "trace_id_bloom")
		read, all := granules(t, window)
		require.GreaterOrEqual(t, all, 25, window)
		require.LessOrEqual(t, read, 6, window)
		trace := explain(t, conn, traceQuery(o.Database, traceID))
		read, _ = granules(t, trace)
		require.LessOrEqual(t, read, 6, trace)
	})
	t.Run("an unknown trace is empty, not an error", func(t *testing.T) {
		require.Zero(t, count(t, conn, "SELECT count() FROM ("+traceQuery(o.Database, "ffffffffffffffffffffffffffffffff")+")"))
	})
}

// The columns that tools of the OTel world look for, with the types that they expect.
func TestOTelViewHasTheColumnsThatToolsKnow(t *testing.T) {
	_, conn, o := migrated(t)
	const attributes = "Map(LowCardinality(String), String)"
	var got []Column
	for _, c := range engineColumns(t, conn, o.Database, "otel_traces") {
		got = append(got, Column{Name: c.Name, Type: c.Type})
	}
	require.Equal(t, []Column{
		{Name: "Timestamp", Type: "DateTime64(9, 'UTC')"}, {Name: "TraceId", Type: "String"}, {Name: "SpanId", Type: "String"},
		{Name: "ParentSpanId", Type: "String"}, {Name: "TraceState", Type: "String"}, {Name: "SpanName", Type: "LowCardinality(String)"},
		{Name: "SpanKind", Type: "LowCardinality(String)"}, {Name: "ServiceName", Type: "LowCardinality(String)"},
		{Name: "ResourceAttributes", Type: attributes}, {Name: "ScopeName", Type: "String"}, {Name: "ScopeVersion", Type: "String"},
		{Name: "SpanAttributes", Type: attributes}, {Name: "Duration", Type: "UInt64"}, {Name: "StatusCode", Type: "LowCardinality(String)"},
		{Name: "StatusMessage", Type: "String"}, {Name: "Events.Timestamp", Type: "Array(DateTime64(9, 'UTC'))"},
		{Name: "Events.Name", Type: "Array(LowCardinality(String))"}, {Name: "Events.Attributes", Type: "Array(" + attributes + ")"},
		{Name: "Links.TraceId", Type: "Array(String)"}, {Name: "Links.SpanId", Type: "Array(String)"},
		{Name: "Links.TraceState", Type: "Array(String)"}, {Name: "Links.Attributes", Type: "Array(" + attributes + ")"},
	}, got)
}

func explain(t *testing.T, conn driver.Conn, query string) string {
	t.Helper()
	rows, err := conn.Query(context.Background(), "EXPLAIN indexes = 1 "+query)
	require.NoError(t, err)
	defer rows.Close()
	var out []string
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		out = append(out, line)
	}
	require.NoError(t, rows.Err())
	return strings.Join(out, "\n")
}

var granulesLine = regexp.MustCompile(`Granules: (\d+)/(\d+)`)

// granules says how many of a table's granules a plan reads: the last figure of the last
// index, and the first figure of the first.
func granules(t *testing.T, plan string) (read, all int) {
	t.Helper()
	lines := granulesLine.FindAllStringSubmatch(plan, -1)
	require.NotEmpty(t, lines, plan)
	read, err := strconv.Atoi(lines[len(lines)-1][1])
	require.NoError(t, err)
	all, err = strconv.Atoi(lines[0][2])
	require.NoError(t, err)
	return read, all
}
