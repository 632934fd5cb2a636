CREATE VIEW IF NOT EXISTS {{view "alerts"}}{{onCluster}} AS
SELECT * EXCEPT (version, stored_at)
FROM {{all "alerts_base"}} FINAL
