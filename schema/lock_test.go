package schema

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/stretchr/testify/require"
)

func TestOwnerIsDeadOnlyIfThatIsCertain(t *testing.T) {
	mine := newOwner()
	require.False(t, ownerIsDead(mine), "this process lives")
	require.NotEqual(t, mine, newOwner())

	child := exec.Command("true")
	require.NoError(t, child.Run())
	pid := fmt.Sprintf(" pid %d in ", child.Process.Pid)
	dead := strings.Replace(mine, fmt.Sprintf(" pid %d in ", os.Getpid()), pid, 1)
	require.True(t, ownerIsDead(dead))
	require.False(t, ownerIsDead(strings.Replace(dead, processSpace(), "another-boot/4026531836", 1)), "the same number elsewhere is another process")
	require.False(t, ownerIsDead(strings.Replace(dead, processSpace(), "-", 1)))
	require.False(t, ownerIsDead("host pid 1 id 0123456789abcdef"), "a holder of release 1 says nothing of its process space")
	require.False(t, ownerIsDead(""))
}

// The embedded engine has no Keeper. The lock's statements and logic run here on another
// table engine; what only KeeperMap does, refusing the insert of a key that is there, is
// put into the insert. The statements as a cluster gets them are parsed below.
func TestKeeperLockLogicOnAnotherTableEngine(t *testing.T) {
	ctx, conn, o := freshNode(t)
	require.NoError(t, conn.Exec(ctx, o.keeperLockDDL("MergeTree")))
	const synchronous = ", mutations_sync = 2" // as every change of a KeeperMap is
	how := o.keeperLock(keeperStrict + synchronous)
	take := how.take
	how.take = func(owner string) statement {
		s := take(owner)
		s.text += " WHERE throwIf((SELECT count() FROM " + how.name + " WHERE key = 'migration') > 0) = 0"
		return s
	}
	const codeThrowIf = 395
	how.isHeld = func(err error) bool { return hasCode(err, codeThrowIf) }

	dead, err := acquireBy(ctx, conn, o, how, discard())
	require.NoError(t, err)
	first := &lock{conn: conn, o: o, how: how, owner: newOwner()}
	second := &lock{conn: conn, o: o, how: how, owner: newOwner()}
	require.NoError(t, first.breakStale(ctx, dead.owner, LockStale, discard()))
	fresh, err := acquireBy(ctx, conn, o, how, discard())
	require.NoError(t, err)
	require.NoError(t, second.breakStale(ctx, dead.owner, LockStale, discard()))
	owner, age, held, err := fresh.holder(ctx)
	require.NoError(t, err)
	require.True(t, held)
	require.Equal(t, fresh.owner, owner, "a late caller must not take the fresh lock away")
	require.Less(t, age, LockStale)

	dead.renewed = time.Time{}
	require.ErrorIs(t, dead.renew(ctx), ErrLocked)
	dead.release(discard())
	require.NoError(t, conn.Exec(ctx, "ALTER TABLE "+how.name+" UPDATE renewed_at = now64(3) - 50 WHERE key = 'migration' SETTINGS mutations_sync = 2"))
	_, age, _, err = fresh.holder(ctx)
	require.NoError(t, err)
	require.GreaterOrEqual(t, age, 50*time.Second)
	fresh.renewed = time.Time{}
	require.NoError(t, fresh.renew(ctx))
	_, age, held, err = fresh.holder(ctx)
	require.NoError(t, err)
	require.True(t, held)
	require.Less(t, age, 50*time.Second, "a renewal counts from now")

	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err = acquireBy(short, conn, o, how, discard())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, conn.Exec(ctx, "ALTER TABLE "+how.name+" UPDATE renewed_at = now64(3) - 61 WHERE key = 'migration' SETTINGS mutations_sync = 2"))
	late, err := acquireBy(ctx, conn, o, how, discard())
	require.NoError(t, err, "a lock that is stale by the server's clock is broken")
	late.release(discard())
	_, _, held, err = late.holder(ctx)
	require.NoError(t, err)
	require.False(t, held)
}

func TestKeeperLockStatementsAreSQLToTheEngine(t *testing.T) {
	ctx, conn, o := freshNode(t)
	o.Cluster = "main"
	how := o.keeperLock(keeperStrict)
	owner := newOwner()
	texts := []string{o.keeperLockDDL("KeeperMap('/driftline/" + o.Database + "/locks')"), how.holder.text, how.remove}
	for _, s := range []statement{how.take(owner), how.renew(owner), how.breakStale(owner), how.release(owner)} {
		require.Contains(t, s.text, "keeper_map_strict_mode = 1")
		require.Empty(t, s.args)
		texts = append(texts, s.text)
	}
	for _, text := range texts {
		rows, err := conn.Query(ctx, "EXPLAIN AST "+text)
		require.NoError(t, err, text)
		require.NoError(t, rows.Close())
	}
}

func TestKeeperLockKnowsTheServersAnswers(t *testing.T) {
	how := Options{Cluster: "main"}.withDefaults().keeperLock(keeperStrict)
	exists := &clickhouse.Exception{Code: 999, Message: "Coordination::Exception: Transaction failed (Node exists): Op #1, path: /driftline/locks/data/x"}
	require.True(t, how.isHeld(fmt.Errorf("exec: %w", exists)))
	require.False(t, how.isHeld(&clickhouse.Exception{Code: 999, Message: "Session expired"}), "a broken Keeper is no other migration")
	require.True(t, how.isBroken(&clickhouse.Exception{Code: 999, Message: "Transaction failed (Bad version)"}))
	require.False(t, how.isBroken(&clickhouse.Exception{Code: 60}))
}

// The real engine answers as a server does whose configuration has no KeeperMap path.
func TestClusterLockFallsBackWhereNoKeeperMapIsConfigured(t *testing.T) {
	ctx, conn, o := freshNode(t)
	// no cluster, so that the engine gets as far as the table's engine
	var log strings.Builder
	how, err := o.clusterLock(ctx, conn, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	require.Equal(t, o.all(lockTable), how.name)
	require.Contains(t, log.String(), "set keeper_map_path_prefix")
	l, err := acquireBy(ctx, conn, o, how, discard())
	require.NoError(t, err)
	l.release(discard())

	o.Cluster = "not_there"
	_, err = o.clusterLock(ctx, conn, discard())
	require.ErrorContains(t, err, keeperLockTable, "another failure is no reason to go on with less")
}
