MODIFY COLUMN duration_ns Int64 CODEC(T64('bit'), ZSTD(1)),
MODIFY COLUMN service_name LowCardinality(String) CODEC(ZSTD(1)),
MODIFY COLUMN kind LowCardinality(String) CODEC(ZSTD(1))
