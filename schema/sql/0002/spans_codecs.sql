MODIFY COLUMN started_at DateTime64(9, 'UTC') CODEC(T64('bit'), ZSTD(1)),
MODIFY COLUMN duration_ns Int64 CODEC(T64('bit'), ZSTD(1)),
MODIFY COLUMN attributes Map(LowCardinality(String), String) CODEC(ZSTD(3))
