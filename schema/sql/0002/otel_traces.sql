CREATE VIEW IF NOT EXISTS {{view "otel_traces"}}{{onCluster}} AS
SELECT
    started_at AS Timestamp,
    trace_id AS TraceId,
    span_id AS SpanId,
    parent_span_id AS ParentSpanId,
    '' AS TraceState,
    name AS SpanName,
    kind AS SpanKind,
    service_name AS ServiceName,
    CAST(map('service.name', toString(service_name)), 'Map(LowCardinality(String), String)') AS ResourceAttributes,
    '' AS ScopeName,
    '' AS ScopeVersion,
    attributes AS SpanAttributes,
    toUInt64(greatest(duration_ns, 0)) AS Duration,
    status_code AS StatusCode,
    '' AS StatusMessage,
    CAST([], 'Array(DateTime64(9, \'UTC\'))') AS `Events.Timestamp`,
    CAST([], 'Array(LowCardinality(String))') AS `Events.Name`,
    CAST([], 'Array(Map(LowCardinality(String), String))') AS `Events.Attributes`,
    CAST([], 'Array(String)') AS `Links.TraceId`,
    CAST([], 'Array(String)') AS `Links.SpanId`,
    CAST([], 'Array(String)') AS `Links.TraceState`,
    CAST([], 'Array(Map(LowCardinality(String), String))') AS `Links.Attributes`
FROM {{all "spans_base"}} FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1, use_skip_indexes_if_final = 1
