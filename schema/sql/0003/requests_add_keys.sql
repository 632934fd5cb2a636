ADD COLUMN IF NOT EXISTS request_key String CODEC(ZSTD(1)) AFTER release_reason,
ADD COLUMN IF NOT EXISTS linked_trace_id String CODEC(ZSTD(1)) AFTER request_key
