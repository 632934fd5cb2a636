ADD COLUMN IF NOT EXISTS user_hash Nullable(Int64) CODEC(ZSTD(1)) AFTER linked_trace_id,
ADD COLUMN IF NOT EXISTS tenant_hash Nullable(Int64) CODEC(ZSTD(1)) AFTER user_hash
