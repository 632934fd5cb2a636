CREATE TABLE IF NOT EXISTS {{local "rollup_inputs_1h_base"}}{{onCluster}}
(
    service_name LowCardinality(String),
    minute DateTime('UTC') CODEC(DoubleDelta, ZSTD(1)),
    target LowCardinality(String),
    stream LowCardinality(String),
    input_bucket LowCardinality(String),
    n UInt64 CODEC(T64, ZSTD(1)),
    late_fragments UInt64 CODEC(T64, ZSTD(1)),
    overflow UInt64 CODEC(T64, ZSTD(1)),
    ok UInt64 CODEC(T64, ZSTD(1)),
    ttft_missing UInt64 CODEC(T64, ZSTD(1)),
    ttft_suspect UInt64 CODEC(T64, ZSTD(1)),
    input_tokens UInt64 CODEC(T64, ZSTD(1)),
    output_tokens UInt64 CODEC(T64, ZSTD(1)),
    cached_tokens UInt64 CODEC(T64, ZSTD(1)),
    ttft_n UInt64 CODEC(T64, ZSTD(1)),
    ttft_sum_ns Int64 CODEC(ZSTD(1)),
    prefill_n UInt64 CODEC(T64, ZSTD(1)),
    prefill_sum_ns Int64 CODEC(ZSTD(1)),
    inference_time_n UInt64 CODEC(T64, ZSTD(1)),
    inference_time_sum_ns Int64 CODEC(ZSTD(1)),
    ttft_buckets Array(Int16) CODEC(ZSTD(1)),
    ttft_counts Array(UInt32) CODEC(T64, ZSTD(1)),
    prefill_buckets Array(Int16) CODEC(ZSTD(1)),
    prefill_counts Array(UInt32) CODEC(T64, ZSTD(1)),
    inference_time_buckets Array(Int16) CODEC(ZSTD(1)),
    inference_time_counts Array(UInt32) CODEC(T64, ZSTD(1)),
    version UInt64 CODEC(ZSTD(1)),
    stored_at DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta, ZSTD(1)),
    INDEX stored_at_range stored_at TYPE minmax GRANULARITY 1
)
ENGINE = {{engine "ReplacingMergeTree" "version"}}
PARTITION BY toYYYYMM(minute)
ORDER BY (minute, service_name, target, stream, input_bucket)
TTL minute + toIntervalDay({{ttlDays "rollup_1h"}})
SETTINGS index_granularity = 512, min_compress_block_size = 16384, max_compress_block_size = 65536, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 1000, min_age_to_force_merge_seconds = 3600, min_age_to_force_merge_on_partition_only = 1
