MODIFY COLUMN service_name LowCardinality(String) CODEC(ZSTD(1)),
MODIFY COLUMN agent LowCardinality(String) CODEC(ZSTD(1))
