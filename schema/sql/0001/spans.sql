CREATE VIEW IF NOT EXISTS {{view "spans"}}{{onCluster}} AS
SELECT *
FROM {{all "spans_base"}} FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1
