CREATE TABLE IF NOT EXISTS {{local "alerts_base"}}{{onCluster}}
(
    fingerprint String,
    transition UInt32,
    at DateTime64(3, 'UTC'),
    detection LowCardinality(String),
    state LowCardinality(String),
    severity LowCardinality(String),
    shadow Bool,
    service_name LowCardinality(String),
    agent LowCardinality(String),
    kind LowCardinality(String),
    target LowCardinality(String),
    stream LowCardinality(String),
    started_at DateTime64(3, 'UTC'),
    fired_at Nullable(DateTime64(3, 'UTC')),
    resolved_at Nullable(DateTime64(3, 'UTC')),
    value Float64,
    threshold Float64,
    baseline Float64,
    unit LowCardinality(String),
    window_ms UInt64,
    samples UInt64,
    labels Map(LowCardinality(String), String),
    annotations Map(LowCardinality(String), String),
    evidence String CODEC(ZSTD(3)),
    version UInt64,
    stored_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = {{engine "ReplacingMergeTree" "version"}}
PARTITION BY toYYYYMM(at)
ORDER BY (fingerprint, transition, at)
TTL toDateTime(at) + toIntervalDay({{ttlDays "alerts"}})
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 1000
