MODIFY COLUMN duration_ns Int64 CODEC(T64('bit'), ZSTD(1))
