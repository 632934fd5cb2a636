CREATE OR REPLACE VIEW {{view "operations"}}{{onCluster}} AS
SELECT * EXCEPT (deleted) REPLACE (
    if(toUnixTimestamp64Nano(started_at) = 0, ended_at - toIntervalNanosecond(user_time_ns), started_at) AS started_at,
    if(path_ns = -1, user_time_ns, path_ns) AS path_ns,
    if(agent_time_ns = -1, user_time_ns, agent_time_ns) AS agent_time_ns,
    if(tool_ns = -1, user_time_ns, tool_ns) AS tool_ns,
    if(inference_segment_ns = -1, ifNull(inference_time_ns, 0), inference_segment_ns) AS inference_segment_ns
)
FROM {{all "operations_base"}} FINAL
WHERE NOT deleted
SETTINGS do_not_merge_across_partitions_select_final = 1
