CREATE TABLE IF NOT EXISTS {{local "segments_base"}}{{onCluster}}
(
    service_name LowCardinality(String),
    trace_id String CODEC(ZSTD(1)),
    revision UInt64 CODEC(T64, ZSTD(1)),
    deleted Bool,
    request_id String CODEC(ZSTD(1)),
    request_ended_at DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    segment_index UInt32 CODEC(T64, ZSTD(1)),
    operation_id String CODEC(ZSTD(1)),
    attempt_ordinal UInt32 CODEC(T64, ZSTD(1)),
    kind LowCardinality(String),
    started_at DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    duration_ns Int64 CODEC(ZSTD(1)),
    ingested_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    stored_at DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta, ZSTD(1)),
    INDEX trace_id_bloom trace_id TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX stored_at_range stored_at TYPE minmax GRANULARITY 1
)
ENGINE = {{engine "ReplacingMergeTree" "revision"}}
PARTITION BY toDate(request_ended_at)
ORDER BY (service_name, toStartOfMinute(request_ended_at), trace_id, request_id, segment_index)
TTL toDateTime(request_ended_at) + toIntervalDay({{ttlDays "segments"}})
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 1000
