CREATE VIEW IF NOT EXISTS {{view "client_tries"}}{{onCluster}} AS
SELECT
    service_name, request_key, trace_id, request_id, agent, name, started_at, ended_at, outcome, error_class, http_status, user_time_ns,
    call_index,
    row_number() OVER call AS ordinal,
    count() OVER (PARTITION BY service_name, request_key, call_index) AS attempts,
    if(retried, greatest(age('ns', earlier_end, started_at), 0), NULL) AS backoff_before_ns
FROM
(
    SELECT *, sum(toUInt64(NOT retried)) OVER (PARTITION BY service_name, request_key ORDER BY started_at, trace_id, request_id) AS call_index
    FROM
    (
        SELECT
            service_name, request_key, trace_id, request_id, agent, name, started_at, ended_at, outcome, error_class, http_status, user_time_ns,
            max(ended_at) OVER before AS earlier_end,
            lagInFrame(outcome, 1, 'ok') OVER one AS earlier_outcome,
            earlier_outcome != 'ok' AND earlier_end <= started_at + toIntervalMillisecond(20) AND age('s', earlier_end, started_at) <= 300 AS retried
        FROM {{view "requests"}}
        WHERE request_key != '' AND NOT late_fragment
        WINDOW
            before AS (PARTITION BY service_name, request_key ORDER BY started_at, trace_id, request_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
            one AS (PARTITION BY service_name, request_key ORDER BY started_at, trace_id, request_id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
    )
)
WINDOW call AS (PARTITION BY service_name, request_key, call_index ORDER BY started_at, trace_id, request_id)
