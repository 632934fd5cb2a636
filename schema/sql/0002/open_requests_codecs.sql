MODIFY COLUMN service_name LowCardinality(String) CODEC(ZSTD(1)),
MODIFY COLUMN agent LowCardinality(String) CODEC(ZSTD(1)),
MODIFY COLUMN ingested_at DateTime64(3, 'UTC') CODEC(ZSTD(1)),
MODIFY COLUMN stored_at DateTime64(3, 'UTC') CODEC(ZSTD(1)),
MODIFY COLUMN trace_id String CODEC(ZSTD(3))
