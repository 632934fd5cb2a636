MODIFY COLUMN trace_id String CODEC(ZSTD(6)),
MODIFY COLUMN request_ended_at DateTime64(9, 'UTC') CODEC(ZSTD(3)),
MODIFY COLUMN segment_index UInt32 CODEC(Delta, ZSTD(3))
