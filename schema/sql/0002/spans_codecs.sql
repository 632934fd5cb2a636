MODIFY COLUMN started_at DateTime64(9, 'UTC') CODEC(T64('bit'), ZSTD(1)),
MODIFY COLUMN duration_ns Int64 CODEC(T64('bit'), ZSTD(1)),
MODIFY COLUMN attributes Map(LowCardinality(String), String) CODEC(ZSTD(3)),
MODIFY COLUMN service_name LowCardinality(String) CODEC(ZSTD(1)),
MODIFY COLUMN name LowCardinality(String) CODEC(ZSTD(1)),
MODIFY COLUMN kind LowCardinality(String) CODEC(ZSTD(1)),
MODIFY COLUMN status_code LowCardinality(String) CODEC(ZSTD(1))
