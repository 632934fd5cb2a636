MODIFY COLUMN started_at DateTime64(9, 'UTC') CODEC(T64('bit'), ZSTD(1)),
MODIFY COLUMN ended_at DateTime64(9, 'UTC') CODEC(T64('bit'), ZSTD(1)),
MODIFY COLUMN duration_ns Int64 CODEC(T64('bit'), ZSTD(1)),
MODIFY COLUMN remaining_ns Nullable(Int64) CODEC(T64('bit'), ZSTD(1))
