ADD COLUMN IF NOT EXISTS fallback_of String CODEC(ZSTD(1)) AFTER step_index,
ADD COLUMN IF NOT EXISTS wasted_ns Nullable(Int64) CODEC(T64('bit'), ZSTD(1)) AFTER fallback_of
