CREATE VIEW IF NOT EXISTS {{view "open_requests"}}{{onCluster}} AS
SELECT * EXCEPT (deleted)
FROM {{all "open_requests_base"}} FINAL
WHERE NOT deleted
SETTINGS do_not_merge_across_partitions_select_final = 1
