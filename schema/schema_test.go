package schema

import (
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"driftline/internal/rows"
)

func TestTemplatesRender(t *testing.T) {
	one, err := Steps(Options{})
	require.NoError(t, err)
	cluster, err := Steps(Options{Cluster: "main"})
	require.NoError(t, err)
	require.Len(t, cluster, len(one))
	for i, step := range one {
		if step.of.rebuilds != "" {
			require.Empty(t, step.Statements, "what it does depends on what is there")
			require.Equal(t, step.Checksum, cluster[i].Checksum)
			continue
		}
		require.Len(t, step.Statements, 1, step.Name)
		require.NotContains(t, step.Statements[0], "ON CLUSTER")
		require.NotContains(t, step.Statements[0], "Replicated")
		require.Equal(t, step.Checksum, cluster[i].Checksum, "the checksum must not depend on options")
		for _, statement := range cluster[i].Statements {
			require.Contains(t, statement, " ON CLUSTER `main`")
		}
		if strings.HasSuffix(step.Name, "_base") {
			require.Len(t, cluster[i].Statements, 2, step.Name)
			local := Options{Cluster: "main"}.localName(step.Name)
			require.Contains(t, cluster[i].Statements[0], "driftline."+local+" ")
			require.Contains(t, cluster[i].Statements[0], "ENGINE = Replicated")
			require.Contains(t, cluster[i].Statements[1], "ENGINE = Distributed('main', 'driftline', '"+local+"', cityHash64(")
		}
	}
}

func TestEveryTemplateIsListedOnce(t *testing.T) {
	folders, err := files.ReadDir("sql")
	require.NoError(t, err)
	require.Len(t, folders, Version)
	require.Len(t, versions, Version)
	for version, objects := range versions {
		entries, err := files.ReadDir(fmt.Sprintf("sql/%04d", version))
		require.NoError(t, err)
		listed := map[string]bool{}
		for _, obj := range objects {
			require.False(t, listed[obj.name], obj.name)
			listed[obj.name] = true
		}
		for _, e := range entries {
			require.True(t, listed[strings.TrimSuffix(e.Name(), ".sql")], "%s is in no version's list", e.Name())
		}
		require.Len(t, entries, len(listed))
	}
}

// typeOf is the column type that a field of the contract must have.
func typeOf(t *testing.T, f rows.Field) []string {
	typ, wrap := f.Type, func(s string) string { return s }
	if typ.Kind() == reflect.Pointer {
		typ, wrap = typ.Elem(), func(s string) string { return "Nullable(" + s + ")" }
	}
	if f.Time {
		require.Equal(t, reflect.Int64, typ.Kind(), f.Column)
		return []string{wrap("DateTime64(9, 'UTC')")}
	}
	switch typ.Kind() {
	case reflect.String:
		return []string{"String", "LowCardinality(String)"}
	case reflect.Bool:
		return []string{wrap("Bool")}
	case reflect.Int64:
		return []string{wrap("Int64")}
	case reflect.Uint64:
		return []string{wrap("UInt64")}
	case reflect.Uint32:
		return []string{wrap("UInt32")}
	case reflect.Uint16:
		return []string{wrap("UInt16")}
	case reflect.Float64:
		return []string{wrap("Float64")}
	case reflect.Map:
		return []string{"Map(LowCardinality(String), String)"}
	}
	t.Fatalf("column %s: no column type is known for %s", f.Column, f.Type)
	return nil
}

func TestDDLHoldsEveryCarriedField(t *testing.T) {
	for _, table := range rows.Tables {
		columns := Columns(string(table))
		fields := rows.Fields(table)
		require.Len(t, columns, len(fields)+2, "%s: want the fields, ingested_at and stored_at", table)
		for i, f := range fields {
			require.Equal(t, f.Column, columns[i].Name, "%s: column %d", table, i)
			require.Contains(t, typeOf(t, f), columns[i].Type, "%s.%s", table, f.Column)
		}
		require.Equal(t, Column{Name: "ingested_at", Type: "DateTime64(3, 'UTC')", Codec: "ZSTD(1)"}, columns[len(fields)])
		require.Equal(t, "now64(3)", columns[len(fields)+1].Default)
	}
}

func TestEveryTableSaysItsRetention(t *testing.T) {
	ttl := map[string]int{}
	for i, key := range TTLKeys() {
		ttl[key] = 11 + i
	}
	steps, err := Steps(Options{TTLDays: ttl})
	require.NoError(t, err)
	objects := allObjects()
	require.Len(t, steps, len(objects))
	for i, obj := range objects {
		if obj.rebuilds != "" {
			continue // its definition is the one that the table is made with
		}
		m := ttlInDDL.FindStringSubmatch(steps[i].Statements[0])
		if obj.ttl == "" {
			require.Nil(t, m, obj.name)
			continue
		}
		require.NotNil(t, m, obj.name)
		require.EqualValues(t, ttl[obj.ttl], atoi(t, m[2]), obj.name)
	}
}

// allObjects lists the objects of all versions in the order of Steps.
func allObjects() (out []object) {
	for version := uint32(1); version <= Version; version++ {
		out = append(out, versions[version]...)
	}
	return out
}

func atoi(t *testing.T, s string) (n int) {
	t.Helper()
	for _, c := range s {
		n = n*10 + int(c-'0')
	}
	return n
}

func TestValidateReportsEverythingAtOnce(t *testing.T) {
	err := Options{
		Database: "drop table;", Cluster: "a'b", ReplicaPath: "/same",
		TTLDays: map[string]int{"requests": 0, "nothing": 3, "spans": 99999},
	}.Validate()
	for _, key := range []string{"database:", "cluster:", "replica_path:", "ttl_days.requests:", "ttl_days.nothing:", "ttl_days.spans:"} {
		require.ErrorContains(t, err, key)
	}
	require.NoError(t, Options{}.Validate())
	_, err = Steps(Options{Database: "a.b"})
	require.ErrorContains(t, err, "database:")
}

func TestValidateDoesNotShowANameThatMayBePartOfAPassword(t *testing.T) {
	for _, name := range []string{"et@127.0.0.1:1/d", "et@h", "et:x"} {
		err := Options{Database: name}.Validate()
		require.ErrorContains(t, err, "database:")
		require.ErrorContains(t, err, "URL-encoded")
		require.NotContains(t, err.Error(), "et@")
		require.NotContains(t, err.Error(), "et:")
	}
}

func TestMinServerVersion(t *testing.T) {
	for _, ok := range []string{"24.8.1.1", "24.10.1", "25.3.2.39", "26.7.3.1", "24.8"} {
		require.NoError(t, minServerVersion(ok), ok)
	}
	for _, old := range []string{"24.7.9.9", "23.12.1", "9", "", "x.y"} {
		err := minServerVersion(old)
		require.ErrorIs(t, err, ErrServerTooOld, old)
		require.ErrorContains(t, err, MinServerVersion)
	}
}

func TestCompare(t *testing.T) {
	steps, err := Steps(Options{})
	require.NoError(t, err)
	var all []Applied
	for _, s := range steps {
		all = append(all, Applied{Version: s.Version, Number: s.Number, Name: s.Name, Checksum: s.Checksum})
	}
	status := func(applied []Applied) Status {
		s := Status{Database: "d", Applied: applied}
		s.compare(steps)
		return s
	}
	s := status(nil)
	require.ErrorIs(t, s.Problem, ErrNotMigrated)
	require.ErrorContains(t, s.Problem, "detectd migrate up")
	require.EqualValues(t, 0, s.Current)
	require.Len(t, s.Pending, len(steps))

	s = status(all)
	require.NoError(t, s.Problem)
	require.EqualValues(t, Version, s.Current)

	require.ErrorIs(t, status(all[:len(all)-1]).Problem, ErrNotMigrated)

	s = status(append(append([]Applied(nil), all...), Applied{Version: Version + 1, Number: 1, Name: "future"}))
	require.ErrorIs(t, s.Problem, ErrNewer)
	require.ErrorContains(t, s.Problem, "future")
	require.EqualValues(t, Version+1, s.Current)

	changed := append([]Applied(nil), all...)
	changed[3].Checksum = "other"
	s = status(changed)
	require.ErrorIs(t, s.Problem, ErrChecksum)
	require.ErrorContains(t, s.Problem, changed[3].Name)
	require.True(t, Permanent(s.Problem))
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
