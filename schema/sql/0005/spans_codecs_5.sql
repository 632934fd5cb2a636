MODIFY COLUMN trace_id String CODEC(ZSTD(6)),
MODIFY COLUMN attributes Map(LowCardinality(String), String) CODEC(ZSTD(9))
