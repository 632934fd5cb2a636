package clienttest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"driftline/internal/engine"
	"driftline/internal/engine/enginetest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// output runs a program that must succeed and returns what it wrote to standard output.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s\n%s", name, args, err, out, stderr.String())
	}
	return string(out)
}

func TestNodeClient(t *testing.T) {
	t.Setenv(engine.EnvPassword, "se$ame/ü")
	e := enginetest.Start(t)
	out := output(t, filepath.Join("node", "run.sh"), e.URL(t), "default", "default", "se$ame/ü")
	if lines := strings.Count(out, "\n"); lines != 17 {
		t.Errorf("%d things held, want 17:\n%s", lines, out)
	}
}

func TestCurl(t *testing.T) {
	e := enginetest.Start(t)
	url := e.URL(t)
	dir := t.TempDir()
	curl := func(args ...string) string {
		return output(t, "curl", append([]string{"-sS", "--max-time", "60"}, args...)...)
	}
	expect := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	expect("ping", curl(url+"/ping"), "Ok.\n")
	expect("GET", curl("-G", url, "--data-urlencode", "query=SELECT 1 + 1"), "2\n")
	expect("POST", curl(url, "--data-binary", "SELECT 'a', 2 FORMAT JSONCompactEachRow"), "[\"a\", 2]\n")
	expect("DDL", curl(url, "-d", "CREATE TABLE t (n UInt64, s String) ENGINE = MergeTree ORDER BY n"), "")
	file := filepath.Join(dir, "rows.csv")
	must(t, os.WriteFile(file, []byte("1,a\n2,b\n"), 0o600))
	expect("a file", curl(url+"/?query=INSERT%20INTO%20t%20FORMAT%20CSV", "--data-binary", "@"+file), "")
	output(t, "gzip", "-k", file)
	expect("a packed file", curl(url+"/?query=INSERT%20INTO%20t%20FORMAT%20CSV", "-H", "Content-Encoding: gzip", "--data-binary", "@"+file+".gz"), "")
	expect("parameter", curl(url+"/?param_s=b", "-d", "SELECT count(), sum(n) FROM t WHERE s = {s:String}"), "2\t4\n")
	expect("packed reply", curl("--compressed", url, "-d", "SELECT sum(n) FROM t"), "6\n")
	// What one table's Native output is, another takes as it is.
	native := filepath.Join(dir, "t.native")
	curl(url, "-d", "SELECT * FROM t FORMAT Native", "-o", native)
	curl(url, "-d", "CREATE TABLE u AS t")
	expect("Native", curl(url+"/?query=INSERT%20INTO%20u%20FORMAT%20Native", "--data-binary", "@"+native), "")
	expect("copied", curl(url, "-d", "SELECT groupArray((n, s)) FROM (SELECT * FROM u ORDER BY n, s)"), "[(1,'a'),(1,'a'),(2,'b'),(2,'b')]\n")
	parquet := curl(url, "-d", "SELECT number AS n FROM numbers(1000) FORMAT Parquet")
	if !strings.HasPrefix(parquet, "PAR1") || !strings.HasSuffix(parquet, "PAR1") {
		t.Errorf("Parquet begins with %q and ends with %q", parquet[:min(4, len(parquet))], parquet[max(0, len(parquet)-4):])
	}
	parquetFile := filepath.Join(dir, "n.parquet")
	must(t, os.WriteFile(parquetFile, []byte(parquet), 0o600))
	curl(url, "-d", "CREATE TABLE p (n UInt64) ENGINE = MergeTree ORDER BY n")
	expect("Parquet", curl(url+"/?query=INSERT%20INTO%20p%20FORMAT%20Parquet", "--data-binary", "@"+parquetFile), "")
	expect("Parquet's rows", curl(url, "-d", "SELECT count(), sum(n) FROM p"), "1000\t499500\n")
	head := curl("-D", "-", "-o", os.DevNull, url+"/?query_id=q1", "-d", "SELECT x")
	for _, want := range []string{"404 Not Found", "X-Clickhouse-Exception-Code: 47", "X-Clickhouse-Query-Id: q1"} {
		if !strings.Contains(head, want) {
			t.Errorf("an error's head lacks %q:\n%s", want, head)
		}
	}
	expect("HEAD", fmt.Sprint(strings.Contains(curl("-I", url+"/?query=SELECT%201"), "200 OK")), "true")
}
