CREATE OR REPLACE VIEW {{view "attempts"}}{{onCluster}} AS
SELECT * EXCEPT (deleted) REPLACE (
    if(toUnixTimestamp64Nano(stored.started_at) = 0, stored.ended_at - toIntervalNanosecond(stored.duration_ns), stored.started_at) AS started_at,
    if(stored.remaining_ns > 400000000000000000, stored.remaining_ns - if(toUnixTimestamp64Nano(stored.started_at) = 0, toUnixTimestamp64Nano(stored.ended_at) - stored.duration_ns, toUnixTimestamp64Nano(stored.started_at)), stored.remaining_ns) AS remaining_ns
)
FROM {{all "attempts_base"}} AS stored FINAL
WHERE NOT deleted
SETTINGS do_not_merge_across_partitions_select_final = 1
