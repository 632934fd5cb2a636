package schema

import (
	"context"
	"encoding/hex"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// tableLock is the lock of one node, or of the one node of a cluster that the connection
// reaches: CREATE TABLE without IF NOT EXISTS succeeds for one caller only, and the
// table's comment names the holder.
func (o Options) tableLock() mechanism {
	name := o.all(lockTable)
	return mechanism{
		name:   name,
		remove: "DROP TABLE " + name,
		take: func(owner string) statement {
			return statement{text: "CREATE TABLE " + name + " (held UInt8) ENGINE = MergeTree ORDER BY held COMMENT " + quote(owner)}
		},
		isHeld: func(err error) bool { return hasCode(err, codeTableExists) },
		holder: statement{
			text: "SELECT comment, toInt64(dateDiff('second', metadata_modification_time, now())) FROM system.tables WHERE database = ? AND name = ?",
			args: []any{o.Database, lockTable},
		},
		renew: func(owner string) statement {
			return statement{text: "ALTER TABLE " + name + " MODIFY COMMENT " + quote(owner)}
		},
		// A dead holder's lock is moved aside. The new name comes from the holder, so of
		// several callers that saw the same stale lock one succeeds, and a late one cannot
		// move a fresh lock: the name it would use is taken until the sweep.
		breakStale: func(owner string) statement {
			return statement{text: "RENAME TABLE " + name + " TO " + o.all(asideName(owner))}
		},
		isBroken: func(err error) bool { return hasCode(err, codeTableExists) || hasCode(err, codeUnknownTable) },
		release: func(string) statement {
			return statement{text: "DROP TABLE IF EXISTS " + name + " SYNC"}
		},
		sweep: o.sweepAside,
	}
}

// asideName keeps only the random part of a holder's name, which is hex.
func asideName(holder string) string {
	id := holder[strings.LastIndexByte(holder, ' ')+1:]
	if _, err := hex.DecodeString(id); err != nil || id == "" {
		id = "unknown"
	}
	return lockTable + "_stale_" + id
}

// sweepAside drops locks that were moved aside over an hour ago, when no caller that saw
// them in place can still be about to move them.
func (o Options) sweepAside(ctx context.Context, conn driver.Conn) error {
	rows, err := conn.Query(ctx, "SELECT name FROM system.tables WHERE database = ? AND startsWith(name, ?) AND metadata_modification_time < now() - 3600", o.Database, lockTable+"_stale_")
	if err != nil {
		return err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, name := range names {
		if err := conn.Exec(ctx, "DROP TABLE IF EXISTS "+o.all(name)); err != nil {
			return err
		}
	}
	return nil
}
