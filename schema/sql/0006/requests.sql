CREATE OR REPLACE VIEW {{view "requests"}}{{onCluster}} AS
SELECT * EXCEPT (deleted) REPLACE (
    if(toUnixTimestamp64Nano(stored.started_at) = 0, stored.ended_at - toIntervalNanosecond(stored.user_time_ns), stored.started_at) AS started_at,
    multiIf(stored.agent_time_ns = -1, stored.user_time_ns, stored.agent_time_ns = -2, stored.user_time_ns - stored.hidden_total_ns, stored.agent_time_ns) AS agent_time_ns
)
FROM {{all "requests_base"}} AS stored FINAL
WHERE NOT deleted
SETTINGS do_not_merge_across_partitions_select_final = 1
