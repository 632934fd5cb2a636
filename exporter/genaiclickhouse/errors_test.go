package genaiclickhouse

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/stretchr/testify/require"

	"driftline/schema"
)

func TestErrorsAreClassedByCode(t *testing.T) {
	for code, want := range map[int32]failure{
		469: {name: "VIOLATED_CONSTRAINT", class: classPermanent}, 6: {name: "CANNOT_PARSE_TEXT", class: classPermanent}, // one row's content
		241: {name: "MEMORY_LIMIT_EXCEEDED", class: classRetryable}, 243: {name: "NOT_ENOUGH_SPACE", class: classRetryable},
		252: {name: "TOO_MANY_PARTS", class: classRetryable}, 242: {name: "TABLE_IS_READ_ONLY", class: classRetryable},
		319: {name: "UNKNOWN_STATUS_OF_INSERT", class: classRetryable},
		516: {name: "AUTHENTICATION_FAILED", class: classRetryable}, 497: {name: "ACCESS_DENIED", class: classRetryable}, // an operator may mend it
		60: {name: "UNKNOWN_TABLE", class: classRetryable, schema: true}, 81: {name: "UNKNOWN_DATABASE", class: classRetryable, schema: true},
		16: {name: "NO_SUCH_COLUMN_IN_TABLE", class: classRetryable, schema: true}, 53: {name: "TYPE_MISMATCH", class: classRetryable, schema: true},
		99999: {name: "OTHER", class: classRetryable, unknown: true},
	} {
		got := describe(fmt.Errorf("wrapped: %w", &clickhouse.Exception{Code: code}))
		require.NotEmpty(t, got.mend, "code %d", code)
		want.code, want.mend = code, got.mend
		require.Equal(t, want, got, "code %d", code)
	}
	// ClickHouse gives one code to two troubles. This one is about a batch.
	text := "Too many partitions for single INSERT block (more than 2). The limit is controlled by 'max_partitions_per_insert_block' setting"
	require.Equal(t, tooManyPartitions, describe(&clickhouse.Exception{Code: 252, Message: text}))
}

func TestErrorsWithoutACodeAreNamed(t *testing.T) {
	for want, err := range map[string]error{
		"TIMEOUT":               context.DeadlineExceeded,
		"CANCELLED":             errors.Join(errors.New("read"), context.Canceled),
		"REFUSED":               &net.OpError{Op: "dial", Err: fmt.Errorf("connect: %w", syscall.ECONNREFUSED)},
		"NO_SUCH_HOST":          &net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}},
		"TLS":                   &net.OpError{Op: "dial", Err: x509.UnknownAuthorityError{}},
		"HTTP_502":              &clickhouse.HTTPError{StatusCode: 502, Err: errors.New("bad gateway")},
		"NO_ANSWER":             errors.New("EOF"),
		"SCHEMA_NOT_MIGRATED":   &schema.Error{Kind: schema.ErrNotMigrated},
		"SCHEMA_NEWER":          &schema.Error{Kind: schema.ErrNewer},
		"SCHEMA_STEP_DIFFERS":   &schema.Error{Kind: schema.ErrChecksum},
		"SCHEMA_OBJECT_MISSING": &schema.Error{Kind: schema.ErrMissing},
		"SCHEMA_COLUMNS_DIFFER": &schema.Error{Kind: schema.ErrColumns},
		"SERVER_TOO_OLD":        &schema.Error{Kind: schema.ErrServerTooOld},
	} {
		got := describe(fmt.Errorf("wrapped: %w", err))
		require.Equal(t, want, got.name)
		require.Zero(t, got.code)
		require.Equal(t, classRetryable, got.class, want)
	}
	require.Equal(t, classPermanent, describe(fmt.Errorf("x: %w", &columnError{table: "spans", column: "c", err: errors.New("boom")})).class)
}

func TestAnErrorSaysWhatToDo(t *testing.T) {
	require.NoError(t, explain(nil))
	err := explain(fmt.Errorf("insert: %w", &clickhouse.Exception{Code: 516, Message: "no"}))
	require.ErrorContains(t, err, "AUTHENTICATION_FAILED")
	require.ErrorContains(t, err, "check username and password")
	var exception *clickhouse.Exception
	require.ErrorAs(t, err, &exception)
}

func TestTheTableOfErrorsIsInOrderAndInTheReadme(t *testing.T) {
	require.True(t, slices.IsSortedFunc(failures, func(a, b failure) int { return int(a.code - b.code) }))
	require.Len(t, failureByCode, len(failures), "a code is there twice")
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	var want strings.Builder
	byMend := map[string][]string{}
	var mends []string
	for _, f := range append(slices.Clone(failures), tooManyPartitions) {
		require.False(t, f.class == classPermanent && f.schema, f.name)
		key := fmt.Sprintf("%s | %s", f.class, f.mend)
		if f.mend == "" {
			key += "wait"
		}
		if byMend[key] == nil {
			mends = append(mends, key)
		}
		byMend[key] = append(byMend[key], fmt.Sprintf("%d `%s`", f.code, f.name))
	}
	for _, key := range mends {
		fmt.Fprintf(&want, "| %s | %s |\n", strings.Join(byMend[key], ", "), key)
	}
	require.True(t, strings.HasSuffix(string(text), "| --- | --- | --- |\n"+want.String()), "the README's table of errors should read:\n%s", want.String())
}
