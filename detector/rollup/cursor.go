package rollup

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/ClickHouse/clickhouse-go/v2"
)

type cursor struct {
	// StoredAtMS is the newest stored_at that has been rolled up, in Unix milliseconds.
	StoredAtMS int64 `json:"stored_at_ms"`
	// HourStoredAtMS is the same for the 1m rows that went into the 1h tier, as binaries of
	// schema version 1 kept it for all tables at once.
	HourStoredAtMS int64 `json:"hour_stored_at_ms"`
	// Tiers is the newest stored_at of the source that went into each coarser table.
	Tiers map[string]int64 `json:"tiers,omitempty"`
}

func (c cursor) clone() cursor {
	c.Tiers = maps.Clone(c.Tiers)
	if c.Tiers == nil {
		c.Tiers = map[string]int64{}
	}
	return c
}

func (c cursor) equal(o cursor) bool {
	return c.StoredAtMS == o.StoredAtMS && c.HourStoredAtMS == o.HourStoredAtMS && maps.Equal(c.Tiers, o.Tiers)
}

// tier is the cursor of one coarser table. What was stored before a table was new is not
// its live work: see backfill.
func (c cursor) tier(name string) int64 {
	if at, ok := c.Tiers[name]; ok {
		return at
	}
	return c.HourStoredAtMS
}

// newest orders two states of the cursor.
func (c cursor) newest() int64 {
	n := max(c.StoredAtMS, c.HourStoredAtMS)
	for _, at := range c.Tiers {
		n = max(n, at)
	}
	return n
}

// cursorKey is the cursor's key in detector_state.
const cursorKey = "rollup/cursor"

func (j *Job) loadCursor(ctx context.Context) (c cursor, have bool, err error) {
	have, err = j.loadState(ctx, cursorKey, &c)
	return c, have, err
}

func (j *Job) saveCursor(ctx context.Context, c cursor) error {
	return j.saveState(ctx, cursorKey, c, c.newest())
}

// loadState reads a state into v, and says whether there is one.
func (j *Job) loadState(ctx context.Context, key string, v any) (bool, error) {
	rows, err := j.conn.Query(ctx, "SELECT state FROM "+j.cfg.Database+".detector_state WHERE key = @key", clickhouse.Named("key", key))
	if err != nil {
		return false, fmt.Errorf("load %s: %w", key, err)
	}
	defer rows.Close()
	have := false
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return false, fmt.Errorf("load %s: %w", key, err)
		}
		if err := json.Unmarshal([]byte(s), v); err != nil {
			return false, fmt.Errorf("%s %q in detector_state is not readable: delete the row to roll up anew: %w", key, s, err)
		}
		have = true
	}
	return have, rows.Err()
}

func (j *Job) saveState(ctx context.Context, key string, v any, version int64) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	err = j.conn.Exec(ctx, "INSERT INTO "+j.cfg.Database+".detector_state_base (key, state, version) SELECT @key, @state, @version",
		clickhouse.Named("key", key), clickhouse.Named("state", string(text)), clickhouse.Named("version", version))
	if err != nil {
		return fmt.Errorf("save %s: %w", key, err)
	}
	return nil
}
