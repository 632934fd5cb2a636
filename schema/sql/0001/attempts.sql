CREATE VIEW IF NOT EXISTS {{view "attempts"}}{{onCluster}} AS
SELECT * EXCEPT (deleted)
FROM {{all "attempts_base"}} FINAL
WHERE NOT deleted
SETTINGS do_not_merge_across_partitions_select_final = 1
