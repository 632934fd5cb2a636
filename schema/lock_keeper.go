package schema

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

const keeperLockTable = "schema_lock_keeper"

// keeperStrict makes an insert of a key that is there an error, and an update or deletion
// one if the row changed since it was read: what the server and Keeper decide atomically.
const keeperStrict = " SETTINGS keeper_map_strict_mode = 1"

// clusterLock prepares the lock of a whole cluster, a row in Keeper that every node sees.
// Where the servers keep no KeeperMap tables it falls back to the lock of one node.
func (o Options) clusterLock(ctx context.Context, conn driver.Conn, logger *slog.Logger) (mechanism, error) {
	err := conn.Exec(ctx, o.keeperLockDDL("KeeperMap("+quote("/driftline/"+o.Database+"/locks")+")"))
	switch {
	case err == nil:
		return o.keeperLock(keeperStrict), nil
	case noKeeperMap(err):
		logger.Warn("no KeeperMap on this cluster, so the migration lock holds on one node only: set keeper_map_path_prefix in the servers' configuration, or send every migration to one node",
			"database", o.Database, "cluster", o.Cluster, "error", err)
		return o.tableLock(), nil
	}
	return mechanism{}, fmt.Errorf("prepare the migration lock %s: %w", o.all(keeperLockTable), err)
}

// noKeeperMap says whether the server has no KeeperMap engine to offer. On a cluster the
// server that was asked reports what the others said, code and text.
func noKeeperMap(err error) bool {
	return hasCode(err, codeSupportDisabled) || hasCode(err, codeUnknownStorage) || err != nil && strings.Contains(err.Error(), "keeper_map_path_prefix")
}

func (o Options) keeperLockDDL(engine string) string {
	return "CREATE TABLE IF NOT EXISTS " + o.all(keeperLockTable) + o.onCluster() + `
(
    key String,
    holder String,
    renewed_at DateTime64(3, 'UTC')
)
ENGINE = ` + engine + `
PRIMARY KEY (key)`
}

// keeperLock is the lock as one row. strict ends each statement that changes it.
func (o Options) keeperLock(strict string) mechanism {
	name := o.all(keeperLockTable)
	const key = "'migration'"
	remove := func(owner string) statement {
		return statement{text: "ALTER TABLE " + name + " DELETE WHERE key = " + key + " AND holder = " + quote(owner) + strict}
	}
	return mechanism{
		name:   name,
		remove: "ALTER TABLE " + name + " DELETE WHERE key = " + key,
		take: func(owner string) statement {
			return statement{text: "INSERT INTO " + name + " (key, holder, renewed_at)" + strict + " SELECT " + key + ", " + quote(owner) + ", now64(3)"}
		},
		isHeld: func(err error) bool {
			return hasCode(err, codeKeeperException) && strings.Contains(err.Error(), keeperNodeExistsText)
		},
		holder: statement{text: "SELECT holder, toInt64(dateDiff('second', renewed_at, now64(3))) FROM " + name + " WHERE key = " + key},
		renew: func(owner string) statement {
			return statement{text: "ALTER TABLE " + name + " UPDATE renewed_at = now64(3) WHERE key = " + key + " AND holder = " + quote(owner) + strict}
		},
		// The holder's name is random, so a late caller deletes nothing of a fresh holder's.
		breakStale: remove,
		isBroken: func(err error) bool {
			return hasCode(err, codeKeeperException)
		},
		release: remove,
	}
}
