CREATE OR REPLACE VIEW {{view "requests"}}{{onCluster}} AS
SELECT * EXCEPT (deleted)
FROM {{all "requests_base"}} FINAL
WHERE NOT deleted
SETTINGS do_not_merge_across_partitions_select_final = 1
