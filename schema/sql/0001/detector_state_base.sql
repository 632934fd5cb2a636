CREATE TABLE IF NOT EXISTS {{local "detector_state_base"}}{{onCluster}}
(
    key String,
    state String CODEC(ZSTD(3)),
    version UInt64,
    deleted Bool,
    stored_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = {{engine "ReplacingMergeTree" "version"}}
ORDER BY key
SETTINGS non_replicated_deduplication_window = 1000
