CREATE TABLE IF NOT EXISTS {{local "spans_base"}}{{onCluster}}
(
    service_name LowCardinality(String) CODEC(ZSTD(1)),
    trace_id String CODEC(ZSTD(3)),
    span_id String CODEC(ZSTD(3)),
    parent_span_id String CODEC(ZSTD(3)),
    name LowCardinality(String) CODEC(ZSTD(1)),
    kind LowCardinality(String) CODEC(ZSTD(1)),
    started_at DateTime64(9, 'UTC') CODEC(T64('bit'), ZSTD(1)),
    duration_ns Int64 CODEC(T64('bit'), ZSTD(1)),
    status_code LowCardinality(String) CODEC(ZSTD(1)),
    attributes Map(LowCardinality(String), String) CODEC(ZSTD(3)),
    ingested_at DateTime64(3, 'UTC') CODEC(ZSTD(1)),
    stored_at DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(ZSTD(1)),
    INDEX trace_id_bloom trace_id TYPE bloom_filter(0.001) GRANULARITY 1
)
ENGINE = {{engine "ReplacingMergeTree" "ingested_at"}}
PARTITION BY toDate(started_at)
ORDER BY (service_name, toStartOfMinute(started_at), trace_id, started_at, span_id)
TTL toDateTime(started_at) + toIntervalDay({{ttlDays "spans"}})
SETTINGS index_granularity = 8192, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 1000
