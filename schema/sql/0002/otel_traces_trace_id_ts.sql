CREATE VIEW IF NOT EXISTS {{view "otel_traces_trace_id_ts"}}{{onCluster}} AS
SELECT
    trace_id AS TraceId,
    min(started_at) AS Start,
    max(started_at) AS End
FROM {{all "spans_base"}}
GROUP BY TraceId
