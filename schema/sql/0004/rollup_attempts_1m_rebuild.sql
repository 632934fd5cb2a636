CREATE TABLE IF NOT EXISTS {{local "rollup_attempts_1m_base"}}{{onCluster}}
(
    service_name LowCardinality(String),
    minute DateTime('UTC') CODEC(DoubleDelta, ZSTD(1)),
    agent LowCardinality(String),
    kind LowCardinality(String),
    target LowCardinality(String),
    endpoint LowCardinality(String),
    layer LowCardinality(String),
    ordinal_bucket LowCardinality(String),
    error_class LowCardinality(String),
    at_cap Bool,
    n UInt64 CODEC(T64, ZSTD(1)),
    weight_milli UInt64 CODEC(T64, ZSTD(1)),
    status_504 UInt64 CODEC(T64, ZSTD(1)),
    leaf UInt64 CODEC(T64, ZSTD(1)),
    duration_n UInt64 CODEC(T64, ZSTD(1)),
    duration_sum_ns Int64 CODEC(ZSTD(1)),
    duration_buckets Array(Int16) CODEC(ZSTD(1)),
    duration_counts Array(UInt64) CODEC(T64, ZSTD(1)),
    backoff_n UInt64 CODEC(T64, ZSTD(1)),
    backoff_sum_ns Int64 CODEC(ZSTD(1)),
    backoff_buckets Array(Int16) CODEC(ZSTD(1)),
    backoff_counts Array(UInt64) CODEC(T64, ZSTD(1)),
    version UInt64 CODEC(ZSTD(1)),
    stored_at DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta, ZSTD(1)),
    INDEX stored_at_range stored_at TYPE minmax GRANULARITY 1
)
ENGINE = {{engine "ReplacingMergeTree" "version"}}
PARTITION BY toDate(minute)
ORDER BY (minute, service_name, agent, kind, target, endpoint, layer, ordinal_bucket, error_class, at_cap)
TTL minute + toIntervalDay({{ttlDays "rollup_1m"}})
SETTINGS index_granularity = 512, min_compress_block_size = 16384, max_compress_block_size = 65536, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 1000, min_age_to_force_merge_seconds = 3600, min_age_to_force_merge_on_partition_only = 1
