MODIFY COLUMN duration_ns Int64 CODEC(T64('bit'), ZSTD(1)),
MODIFY COLUMN service_name LowCardinality(String) CODEC(ZSTD(1)),
MODIFY COLUMN kind LowCardinality(String) CODEC(ZSTD(1)),
MODIFY COLUMN ingested_at DateTime64(3, 'UTC') CODEC(ZSTD(1)),
MODIFY COLUMN stored_at DateTime64(3, 'UTC') CODEC(ZSTD(1)),
MODIFY COLUMN trace_id String CODEC(ZSTD(3)),
MODIFY COLUMN request_id String CODEC(ZSTD(3)),
MODIFY COLUMN operation_id String CODEC(ZSTD(3))
