CREATE OR REPLACE VIEW {{view "operations"}}{{onCluster}} AS
SELECT * EXCEPT (deleted) REPLACE (
    if(toUnixTimestamp64Nano(stored.started_at) = 0, stored.ended_at - toIntervalNanosecond(stored.user_time_ns), stored.started_at) AS started_at,
    if(stored.path_ns = -1, stored.user_time_ns, stored.path_ns) AS path_ns,
    multiIf(stored.agent_time_ns = -1, stored.user_time_ns, stored.agent_time_ns = -2, stored.user_time_ns - stored.hidden_total_ns, stored.agent_time_ns) AS agent_time_ns,
    multiIf(stored.tool_ns = -1, stored.user_time_ns, stored.tool_ns = -2, stored.user_time_ns - ifNull(stored.hidden_total_ns, 0), stored.tool_ns) AS tool_ns,
    if(stored.inference_time_ns = -1, stored.user_time_ns, stored.inference_time_ns) AS inference_time_ns,
    if(stored.inference_segment_ns = -1, ifNull(if(stored.inference_time_ns = -1, stored.user_time_ns, stored.inference_time_ns), 0), stored.inference_segment_ns) AS inference_segment_ns,
    if(stored.first_chunk_ns = -1, stored.ttft_ns, stored.first_chunk_ns) AS first_chunk_ns,
    if(stored.ttft_segment_ns = -1, ifNull(stored.ttft_ns, 0), stored.ttft_segment_ns) AS ttft_segment_ns,
    if(stored.generation_ns = -1, ifNull(if(stored.inference_time_ns = -1, stored.user_time_ns, stored.inference_time_ns) - stored.ttft_ns, 0), stored.generation_ns) AS generation_ns,
    if(stored.time_per_output_token_ns = -1, intDivOrZero(if(stored.inference_time_ns = -1, stored.user_time_ns, stored.inference_time_ns) - stored.ttft_ns, stored.output_tokens - 1), stored.time_per_output_token_ns) AS time_per_output_token_ns
)
FROM {{all "operations_base"}} AS stored FINAL
WHERE NOT deleted
SETTINGS do_not_merge_across_partitions_select_final = 1
