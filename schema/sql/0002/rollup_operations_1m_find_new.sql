ADD INDEX IF NOT EXISTS stored_at_range stored_at TYPE minmax GRANULARITY 1
MODIFY SETTING min_age_to_force_merge_seconds = 3600, min_age_to_force_merge_on_partition_only = 1
