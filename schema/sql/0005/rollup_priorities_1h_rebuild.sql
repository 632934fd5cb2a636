CREATE TABLE IF NOT EXISTS {{local "rollup_priorities_1h_base"}}{{onCluster}}
(
    service_name LowCardinality(String),
    minute DateTime('UTC') CODEC(DoubleDelta, ZSTD(1)),
    priority LowCardinality(String),
    n UInt64 CODEC(T64, ZSTD(1)),
    late_fragments UInt64 CODEC(T64, ZSTD(1)),
    overflow UInt64 CODEC(T64, ZSTD(1)),
    ok UInt64 CODEC(T64, ZSTD(1)),
    errors_timeout UInt64 CODEC(T64, ZSTD(1)),
    errors_overload UInt64 CODEC(T64, ZSTD(1)),
    errors_server UInt64 CODEC(T64, ZSTD(1)),
    errors_client UInt64 CODEC(T64, ZSTD(1)),
    errors_network UInt64 CODEC(T64, ZSTD(1)),
    errors_cancelled UInt64 CODEC(T64, ZSTD(1)),
    errors_other UInt64 CODEC(T64, ZSTD(1)),
    status_504 UInt64 CODEC(T64, ZSTD(1)),
    deadline_known UInt64 CODEC(T64, ZSTD(1)),
    deadline_missed UInt64 CODEC(T64, ZSTD(1)),
    missed_own UInt64 CODEC(T64, ZSTD(1)),
    missed_inherited UInt64 CODEC(T64, ZSTD(1)),
    user_time_n UInt64 CODEC(T64, ZSTD(1)),
    user_time_sum_ns Int64 CODEC(ZSTD(1)),
    drift_n UInt64 CODEC(T64, ZSTD(1)),
    drift_sum_ns Int64 CODEC(ZSTD(1)),
    user_time_buckets Array(Int16) CODEC(ZSTD(1)),
    user_time_counts Array(UInt32) CODEC(T64, ZSTD(1)),
    drift_buckets Array(Int16) CODEC(ZSTD(1)),
    drift_counts Array(UInt32) CODEC(T64, ZSTD(1)),
    version UInt64 CODEC(ZSTD(1)),
    stored_at DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta, ZSTD(1)),
    INDEX stored_at_range stored_at TYPE minmax GRANULARITY 1
)
ENGINE = {{engine "ReplacingMergeTree" "version"}}
PARTITION BY toYYYYMM(minute)
ORDER BY (minute, service_name, priority)
TTL minute + toIntervalDay({{ttlDays "rollup_1h"}})
SETTINGS index_granularity = 512, min_compress_block_size = 16384, max_compress_block_size = 65536, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 1000, min_age_to_force_merge_seconds = 3600, min_age_to_force_merge_on_partition_only = 1
