CREATE TABLE IF NOT EXISTS {{local "open_requests_base"}}{{onCluster}}
(
    service_name LowCardinality(String),
    trace_id String CODEC(ZSTD(1)),
    revision UInt64 CODEC(T64, ZSTD(1)),
    deleted Bool,
    agent LowCardinality(String),
    observed_at DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    started_at DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    last_span_at DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    age_ns Int64 CODEC(ZSTD(1)),
    deadline_at Nullable(DateTime64(9, 'UTC')) CODEC(ZSTD(1)),
    budget_ns Nullable(Int64) CODEC(ZSTD(1)),
    spans UInt32 CODEC(T64, ZSTD(1)),
    operations UInt32 CODEC(T64, ZSTD(1)),
    failed_operations UInt32 CODEC(T64, ZSTD(1)),
    ingested_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    stored_at DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta, ZSTD(1)),
    INDEX trace_id_bloom trace_id TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX stored_at_range stored_at TYPE minmax GRANULARITY 1
)
ENGINE = {{engine "ReplacingMergeTree" "revision"}}
PARTITION BY toDate(observed_at)
ORDER BY (service_name, toStartOfMinute(observed_at), trace_id, observed_at)
TTL toDateTime(observed_at) + toIntervalDay({{ttlDays "open_requests"}})
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 1000
