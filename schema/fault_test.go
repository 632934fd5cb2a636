package schema

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/stretchr/testify/require"

	"driftline/internal/engine/enginetest"
)

// These tests run a migrator as a process of its own, this test binary started again, so
// that it can be killed. It reaches the engine through a proxy that knows which statement
// is on its way, so the moment of the kill needs no waiting and no luck.

const (
	envMigratorDSN      = "DRIFTLINE_SCHEMA_TEST_MIGRATOR_DSN"
	envMigratorDatabase = "DRIFTLINE_SCHEMA_TEST_MIGRATOR_DATABASE"
	envMigratorSpansTTL = "DRIFTLINE_SCHEMA_TEST_MIGRATOR_SPANS_TTL"
)

func TestMain(m *testing.M) {
	if os.Getenv(envMigratorDSN) != "" {
		if err := migrator(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	enginetest.Main(m)
}

// migrator is what the child process does.
func migrator() error {
	opt, err := clickhouse.ParseDSN(os.Getenv(envMigratorDSN))
	if err != nil {
		return err
	}
	conn, err := clickhouse.Open(opt)
	if err != nil {
		return err
	}
	var ttl int
	if _, err := fmt.Sscan(os.Getenv(envMigratorSpansTTL), &ttl); err != nil {
		return err
	}
	return Up(context.Background(), conn, Options{
		Database: os.Getenv(envMigratorDatabase), AppliedBy: fmt.Sprint("process ", os.Getpid()), TTLDays: map[string]int{TTLSpans: ttl},
	}, nil)
}

// change is a statement that changes something, without what differs from run to run.
func change(text string) string {
	text = strings.TrimSpace(text)
	for _, verb := range []string{"CREATE ", "INSERT ", "ALTER ", "RENAME ", "EXCHANGE ", "DROP "} {
		if strings.HasPrefix(text, verb) {
			return ownParts.ReplaceAllString(text, "")
		}
	}
	return ""
}

var ownParts = regexp.MustCompile(`pid \d+ |id [0-9a-f]{16}|_stale_[0-9a-f]+|process \d+`)

// proxy passes statements on and calls after, if set, when the engine has carried out one
// that changes something. If after returns false the client gets no answer.
type proxy struct {
	dsn   string
	mu    sync.Mutex
	child *exec.Cmd
	after func(change string) (answer bool)
}

func newProxy(t *testing.T, e *enginetest.Engine) *proxy {
	t.Helper()
	target, err := url.Parse(e.URL(t))
	require.NoError(t, err)
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.ErrorLog = log.New(io.Discard, "", 0)
	p := &proxy{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer := httptest.NewRecorder()
		forward.ServeHTTP(answer, r)
		if text := change(string(body)); text != "" && p.after != nil && !p.after(text) {
			panic(http.ErrAbortHandler) // the connection is cut
		}
		for key, values := range answer.Header() {
			w.Header()[key] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	server.Config.ErrorLog = forward.ErrorLog
	t.Cleanup(server.Close)
	dsn, err := url.Parse(e.DSN())
	require.NoError(t, err)
	dsn.Host = strings.TrimPrefix(server.URL, "http://")
	p.dsn = dsn.String()
	return p
}

// migrate runs a migrator process to its end and says whether kill ended it.
func (p *proxy) migrate(t *testing.T, database string, spansTTL int) (killed bool, output string) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envMigratorDSN+"="+p.dsn, envMigratorDatabase+"="+database, fmt.Sprint(envMigratorSpansTTL, "=", spansTTL))
	cmd.Stdout, cmd.Stderr = &out, &out
	p.mu.Lock()
	p.child = cmd
	err := cmd.Start()
	p.mu.Unlock()
	require.NoError(t, err)
	err = cmd.Wait()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		require.Equal(t, syscall.SIGKILL, status.Signal(), out.String())
		return true, out.String()
	}
	if err != nil {
		return false, "failed: " + out.String()
	}
	return false, ""
}

// kill ends the migrator at once, as kill -9 does.
func (p *proxy) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.child.Process.Kill()
}

func TestAMigratorKilledAtEveryStepIsFollowedByOneThatFinishes(t *testing.T) {
	ctx, conn, o := freshNode(t)
	require.NoError(t, conn.Exec(ctx, "DROP DATABASE "+o.Database+" SYNC"))
	p := newProxy(t, enginetest.Shared(t))
	seen := map[string]bool{}
	kills, recorded := 0, 0
	// Each migrator dies when the engine has carried out the first change that no earlier one died at, before it hears
	// of that: each object made or changed and not recorded, each record, and each change of the lock.
	p.after = func(text string) bool {
		if seen[text] {
			return true
		}
		seen[text] = true
		if strings.HasPrefix(text, "INSERT ") {
			recorded += strings.Count(text, "), (") + 1
		}
		kills++
		p.kill()
		return false
	}
	for {
		killed, output := p.migrate(t, o.Database, 7)
		if !killed {
			require.Empty(t, output)
			break
		}
		st, err := ReadStatus(ctx, conn, o)
		require.NoError(t, err)
		require.False(t, Permanent(st.Problem), "%v", st.Problem)
		require.Len(t, st.Applied, recorded, "what is recorded is what the engine was told to record")
		require.Empty(t, st.Missing, "nothing is recorded before it is there")
	}
	require.NoError(t, Check(ctx, conn, o))
	require.EqualValues(t, len(allObjects()), count(t, conn, "SELECT count() FROM "+o.Database+".schema_migrations"), "raw rows: a step recorded twice would show")
	require.Greater(t, count(t, conn, "SELECT uniqExact(applied_by) FROM "+o.Database+".schema_migrations"), uint64(len(allObjects())/recordEvery-1))
	require.Greater(t, kills, len(allObjects()), "each step, and the lock's taking, breaking and freeing")
	t.Logf("%d migrators killed for %d steps", kills, len(allObjects()))

	// The same while retention changes.
	clear(seen)
	p.after = func(text string) bool {
		if !strings.Contains(text, "MODIFY TTL") || seen[text] {
			return true
		}
		seen[text] = true
		p.kill()
		return false
	}
	killed, _ := p.migrate(t, o.Database, 3)
	require.True(t, killed)
	killed, output := p.migrate(t, o.Database, 3)
	require.False(t, killed)
	require.Empty(t, output)
	require.EqualValues(t, 1, count(t, conn, "SELECT count() FROM system.tables WHERE database = ? AND name = 'spans_base' AND create_table_query LIKE '%toIntervalDay(3)%'", o.Database))
}

// The engine dies when it has made an object that is not recorded yet, or has recorded it; the migrator sees its
// connection cut. After the restart another migrator finishes at once: the lock's holder is seen to be dead.
func TestTheEngineKilledBetweenStepsLeavesAMigrationThatGoesOn(t *testing.T) {
	e := enginetest.Start(t)
	ctx, o := background(), Options{Database: e.Database(t)}.withDefaults()
	require.NoError(t, up(ctx, e.Conn(t), o, 1, nil))
	for _, table := range tablesUpTo(1) {
		fill(t, e.Conn(t), o.Database, table, 20)
	}
	p := newProxy(t, e)
	dieAfter := []string{"CREATE VIEW IF NOT EXISTS " + o.Database + ".otel_traces ", "INSERT INTO " + o.Database + ".schema_migrations", "CREATE TABLE " + o.Database + "." + lockTable}
	for _, prefix := range dieAfter {
		var once sync.Once
		p.after = func(text string) bool {
			answer := true
			if strings.HasPrefix(text, prefix) {
				once.Do(func() {
					e.Kill9(t)
					answer = false
				})
			}
			return answer
		}
		killed, output := p.migrate(t, o.Database, 7)
		require.False(t, killed)
		require.Contains(t, output, "failed:", "the migrator must not call this a success")
		e.Restart(t)
		st, err := ReadStatus(ctx, e.Conn(t), o)
		require.NoError(t, err)
		require.False(t, Permanent(st.Problem), "%v", st.Problem)
		require.Empty(t, st.Missing)
	}
	killed, output := p.migrate(t, o.Database, 7)
	require.False(t, killed)
	require.Empty(t, output)
	conn := e.Conn(t)
	require.NoError(t, Check(ctx, conn, o))
	require.EqualValues(t, len(allObjects()), count(t, conn, "SELECT count() FROM "+o.Database+".schema_migrations"))
	for _, table := range tablesUpTo(1) {
		require.EqualValues(t, 20, count(t, conn, "SELECT count() FROM "+o.Database+"."+strings.TrimSuffix(table.Name, "_base")), table.Name)
	}
}
