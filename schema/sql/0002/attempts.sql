CREATE OR REPLACE VIEW {{view "attempts"}}{{onCluster}} AS
SELECT * EXCEPT (deleted) REPLACE (
    if(toUnixTimestamp64Nano(started_at) = 0, ended_at - toIntervalNanosecond(duration_ns), started_at) AS started_at
)
FROM {{all "attempts_base"}} FINAL
WHERE NOT deleted
SETTINGS do_not_merge_across_partitions_select_final = 1
