CREATE VIEW IF NOT EXISTS {{view "detector_state"}}{{onCluster}} AS
SELECT key, state, version
FROM {{all "detector_state_base"}} FINAL
WHERE NOT deleted
