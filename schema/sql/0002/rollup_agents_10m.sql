CREATE VIEW IF NOT EXISTS {{view "rollup_agents_10m"}}{{onCluster}} AS
SELECT * EXCEPT (version, stored_at)
FROM {{all "rollup_agents_10m_base"}} FINAL
WHERE n > 0
SETTINGS do_not_merge_across_partitions_select_final = 1, optimize_move_to_prewhere_if_final = 1
