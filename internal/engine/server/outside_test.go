package server

import "testing"

func TestWhatReachesOutsideIsFound(t *testing.T) {
	for _, sql := range []string{
		"SELECT * FROM file('/etc/passwd', 'LineAsString')",
		"SELECT file('/etc/passwd')",
		"SELECT * FROM /* x */ `File` -- y\n ('/etc/passwd')",
		"SELECT * FROM \"f\\x69le\"('/etc/passwd')",
		"INSERT INTO FUNCTION file('/tmp/x', 'CSV', 'a Int8')",
		"INSERT INTO t SELECT * FROM url('http://127.0.0.1/', 'CSV')",
		"CREATE TABLE t (a Int8) ENGINE = File(CSV)",
		"CREATE DATABASE d ENGINE=Filesystem",
		"CREATE DATABASE d ENGINE Filesystem('/')",
		"CREATE DICTIONARY d (a UInt8) PRIMARY KEY a SOURCE(EXECUTABLE(COMMAND 'id' FORMAT 'TSV')) LAYOUT(FLAT()) LIFETIME(1)",
		"BACKUP TABLE t TO File('/tmp/b')",
		"CREATE TABLE t (a Int8) ENGINE = MergeTree ORDER BY a SETTINGS disk = disk(type = local, path = '/tmp/')",
		"ATTACH TABLE t FROM '/tmp/x' (a Int8) ENGINE = MergeTree ORDER BY a",
		"SELECT * FROM executable_pool('x')",
		"SELECT * FROM '/etc/passwd'", "SELECT * FROM `/etc/passwd`", "SELECT * FROM default.`/etc/passwd`",
		"SELECT count() FROM t, '/etc/passwd'", "SELECT 1 FROM t WHERE a IN (SELECT * FROM t AS x, `/etc/passwd`)",
		"DESCRIBE TABLE \"/etc/passwd\"", "SELECT 1 FROM t JOIN '/etc/passwd' USING x", "SELECT 1 IN `/etc/passwd`", "SELECT * FROM 'local.csv'",
	} {
		if reachesOutside(sql) == "" {
			t.Errorf("not found: %s", sql)
		}
	}
	for _, sql := range []string{
		"SELECT 'file(1)', file, url FROM t -- file(1)",
		"INSERT INTO driftline.requests_base",
		"CREATE TABLE t (file String) ENGINE = MergeTree ORDER BY file",
		"SELECT profile(1), cutURL(x) FROM numbers(3) WHERE name IN ('file') AND url = 'x'",
		"ATTACH PARTITION x",
		"SELECT a AS `req/s`, 'x/y', startsWith(b, '/v1') FROM `t.x`, d.`y` WHERE z IN ('/a', '/b') AND has(['/c'], c) ORDER BY a, '/d'",
	} {
		if got := reachesOutside(sql); got != "" {
			t.Errorf("%s found in %s", got, sql)
		}
	}
}
