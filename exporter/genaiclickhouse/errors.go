package genaiclickhouse

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/ClickHouse/clickhouse-go/v2"

	"driftline/internal/rows"
	"driftline/schema"
)

// errorClass says whether trying again can help.
type errorClass string

const (
	// classRetryable: the same data may be stored later, so it is kept.
	classRetryable errorClass = "retryable"
	// classPermanent: the same row is refused again. Its batch is divided until the row
	// stands alone, and then the row is dropped and counted.
	classPermanent errorClass = "permanent"
)

// failure is what is known of one kind of error.
type failure struct {
	// code is ClickHouse's; 0 when it gave none.
	code int32
	// name is ClickHouse's own for its codes, ours otherwise. It labels a metric, so the
	// number of names is bounded.
	name  string
	class errorClass
	// schema says that the tables are not those that the last check of the schema found.
	schema bool
	// unknown says that this table has nothing on the code. Such a batch is tried again,
	// but not for ever if others are stored meanwhile.
	unknown bool
	// mend says what to do about it; empty when waiting is all there is to do.
	mend string
}

const (
	mendSchema  = "the tables differ from what this exporter writes: run `detectd migrate status`, then `detectd migrate up`, and undo changes made to driftline's tables by hand"
	mendLogin   = "check username and password, and that this user may log in from this host"
	mendRights  = "give the exporter's user SELECT and INSERT on the database, and writing settings (readonly = 0)"
	mendDisk    = "free or add disk space on the ClickHouse server, or shorten the retention with `detectd migrate up --ttl-days`"
	mendMemory  = "give ClickHouse or this user more memory, or lower sending_queue.batch.max_size and max_insert_rows"
	mendParts   = "merges do not keep up: look at the server's disk, CPU and system.merges, use fewer collectors or a longer sending_queue.batch.flush_timeout"
	mendLoad    = "the server is busy: look at its running queries and limits"
	mendReplica = "look at the cluster's replicas and Keeper"
	mendNetwork = "check that ClickHouse runs, the endpoint's host, port and protocol (9000 for clickhouse://, 8123 for http://), and the network between"
	mendTLS     = "check tls.ca_file, that the certificate names the endpoint's host, and that this port speaks TLS"
	mendRow     = "a row of this kind can never be stored: look for constraints and changed columns on driftline's tables, else report it with the log line"
	mendUnknown = "look the code up in ClickHouse's system.errors and its log"
	mendServer  = "use a ClickHouse release that driftline supports (" + schema.MinServerVersion + " or newer), or a later driftline"
)

// failures classes ClickHouse's codes. Permanent is only what one row's content can cause;
// all else is kept and tried again, since an operator, a merge or a restart can mend it.
// The README shows this table.
var failures = []failure{
	{code: 6, name: "CANNOT_PARSE_TEXT", class: classPermanent, mend: mendRow},
	{code: 7, name: "INCORRECT_NUMBER_OF_COLUMNS", class: classRetryable, schema: true, mend: mendSchema},
	{code: 9, name: "SIZES_OF_COLUMNS_DOESNT_MATCH", class: classRetryable, schema: true, mend: mendSchema},
	{code: 10, name: "NOT_FOUND_COLUMN_IN_BLOCK", class: classRetryable, schema: true, mend: mendSchema},
	{code: 16, name: "NO_SUCH_COLUMN_IN_TABLE", class: classRetryable, schema: true, mend: mendSchema},
	{code: 19, name: "SIZE_OF_FIXED_STRING_DOESNT_MATCH", class: classPermanent, mend: mendRow},
	{code: 20, name: "NUMBER_OF_COLUMNS_DOESNT_MATCH", class: classRetryable, schema: true, mend: mendSchema},
	{code: 26, name: "CANNOT_PARSE_QUOTED_STRING", class: classPermanent, mend: mendRow},
	{code: 27, name: "CANNOT_PARSE_INPUT_ASSERTION_FAILED", class: classPermanent, mend: mendRow},
	{code: 36, name: "BAD_ARGUMENTS", class: classRetryable, mend: mendServer},
	{code: 38, name: "CANNOT_PARSE_DATE", class: classPermanent, mend: mendRow},
	{code: 41, name: "CANNOT_PARSE_DATETIME", class: classPermanent, mend: mendRow},
	{code: 43, name: "ILLEGAL_TYPE_OF_ARGUMENT", class: classRetryable, schema: true, mend: mendSchema},
	{code: 44, name: "ILLEGAL_COLUMN", class: classRetryable, schema: true, mend: mendSchema},
	{code: 47, name: "UNKNOWN_IDENTIFIER", class: classRetryable, schema: true, mend: mendSchema},
	{code: 48, name: "NOT_IMPLEMENTED", class: classRetryable, mend: mendServer},
	{code: 53, name: "TYPE_MISMATCH", class: classRetryable, schema: true, mend: mendSchema},
	{code: 60, name: "UNKNOWN_TABLE", class: classRetryable, schema: true, mend: mendSchema},
	{code: 62, name: "SYNTAX_ERROR", class: classRetryable, mend: mendServer},
	{code: 69, name: "ARGUMENT_OUT_OF_BOUND", class: classPermanent, mend: mendRow},
	{code: 70, name: "CANNOT_CONVERT_TYPE", class: classRetryable, schema: true, mend: mendSchema},
	{code: 72, name: "CANNOT_PARSE_NUMBER", class: classPermanent, mend: mendRow},
	{code: 74, name: "CANNOT_READ_FROM_FILE_DESCRIPTOR", class: classRetryable, mend: mendDisk},
	{code: 75, name: "CANNOT_WRITE_TO_FILE_DESCRIPTOR", class: classRetryable, mend: mendDisk},
	{code: 76, name: "CANNOT_OPEN_FILE", class: classRetryable, mend: mendDisk},
	{code: 81, name: "UNKNOWN_DATABASE", class: classRetryable, schema: true, mend: mendSchema},
	{code: 115, name: "UNKNOWN_SETTING", class: classRetryable, mend: mendServer},
	{code: 117, name: "INCORRECT_DATA", class: classPermanent, mend: mendRow},
	{code: 131, name: "TOO_LARGE_STRING_SIZE", class: classPermanent, mend: mendRow},
	{code: 159, name: "TIMEOUT_EXCEEDED", class: classRetryable, mend: mendLoad},
	{code: 160, name: "TOO_SLOW", class: classRetryable, mend: mendLoad},
	{code: 164, name: "READONLY", class: classRetryable, mend: mendRights},
	{code: 190, name: "SIZES_OF_ARRAYS_DONT_MATCH", class: classPermanent, mend: mendRow},
	{code: 192, name: "UNKNOWN_USER", class: classRetryable, mend: mendLogin},
	{code: 193, name: "WRONG_PASSWORD", class: classRetryable, mend: mendLogin},
	{code: 194, name: "REQUIRED_PASSWORD", class: classRetryable, mend: mendLogin},
	{code: 195, name: "IP_ADDRESS_NOT_ALLOWED", class: classRetryable, mend: mendLogin},
	{code: 201, name: "QUOTA_EXCEEDED", class: classRetryable, mend: "raise the quota of the exporter's user"},
	{code: 202, name: "TOO_MANY_SIMULTANEOUS_QUERIES", class: classRetryable, mend: mendLoad},
	{code: 209, name: "SOCKET_TIMEOUT", class: classRetryable, mend: mendNetwork},
	{code: 210, name: "NETWORK_ERROR", class: classRetryable, mend: mendNetwork},
	{code: 218, name: "TABLE_IS_DROPPED", class: classRetryable, schema: true, mend: mendSchema},
	{code: 225, name: "NO_ZOOKEEPER", class: classRetryable, mend: mendReplica},
	{code: 236, name: "ABORTED", class: classRetryable},
	{code: 241, name: "MEMORY_LIMIT_EXCEEDED", class: classRetryable, mend: mendMemory},
	{code: 242, name: "TABLE_IS_READ_ONLY", class: classRetryable, mend: mendReplica},
	{code: 243, name: "NOT_ENOUGH_SPACE", class: classRetryable, mend: mendDisk},
	{code: 252, name: "TOO_MANY_PARTS", class: classRetryable, mend: mendParts},
	{code: 265, name: "NO_AVAILABLE_REPLICA", class: classRetryable, mend: mendReplica},
	{code: 279, name: "ALL_CONNECTION_TRIES_FAILED", class: classRetryable, mend: mendReplica},
	{code: 285, name: "TOO_FEW_LIVE_REPLICAS", class: classRetryable, mend: mendReplica},
	{code: 286, name: "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE", class: classRetryable, mend: mendReplica},
	{code: 319, name: "UNKNOWN_STATUS_OF_INSERT", class: classRetryable, mend: mendReplica},
	{code: 321, name: "VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE", class: classPermanent, mend: mendRow},
	{code: 349, name: "CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN", class: classPermanent, mend: mendRow},
	{code: 394, name: "QUERY_WAS_CANCELLED", class: classRetryable},
	{code: 439, name: "CANNOT_SCHEDULE_TASK", class: classRetryable, mend: mendLoad},
	{code: 452, name: "SETTING_CONSTRAINT_VIOLATION", class: classRetryable, mend: mendRights},
	{code: 469, name: "VIOLATED_CONSTRAINT", class: classPermanent, mend: mendRow},
	{code: 473, name: "DEADLOCK_AVOIDED", class: classRetryable},
	{code: 497, name: "ACCESS_DENIED", class: classRetryable, mend: mendRights},
	{code: 499, name: "S3_ERROR", class: classRetryable, mend: mendDisk},
	{code: 516, name: "AUTHENTICATION_FAILED", class: classRetryable, mend: mendLogin},
	{code: 519, name: "NO_REMOTE_SHARD_AVAILABLE", class: classRetryable, mend: mendReplica},
	{code: 720, name: "USER_EXPIRED", class: classRetryable, mend: mendLogin},
	{code: 999, name: "KEEPER_EXCEPTION", class: classRetryable, mend: mendReplica},
}

// tooManyPartitions is code 252 too, but about one batch: divided, it passes.
var tooManyPartitions = failure{code: 252, name: "TOO_MANY_PARTITIONS", class: classPermanent, mend: "raise max_partitions_per_insert_block of the exporter's user to 100, ClickHouse's default"}

var failureByCode = func() map[int32]failure {
	out := make(map[int32]failure, len(failures))
	for _, f := range failures {
		out[f.code] = f
	}
	return out
}()

// columnError says that a column could not be built, which is a mistake in the program.
type columnError struct {
	table  rows.Table
	column string
	err    error
}

func (e *columnError) Error() string {
	return fmt.Sprintf("build column %s of %s: %v", e.column, e.table, e.err)
}

func (e *columnError) Unwrap() error { return e.err }

// insertError is an INSERT's failure, with its table.
type insertError struct {
	table rows.Table
	err   error
}

func (e *insertError) Error() string { return e.err.Error() }

func (e *insertError) Unwrap() error { return e.err }

// describe finds out what kind of failure err is.
func describe(err error) failure {
	var column *columnError
	if errors.As(err, &column) {
		return failure{name: "COLUMN", class: classPermanent, mend: mendRow}
	}
	var exception *clickhouse.Exception
	if errors.As(err, &exception) {
		return describeException(exception)
	}
	if mismatch := new(schema.Error); errors.As(err, &mismatch) {
		return failure{name: schemaName(mismatch), class: classRetryable} // it says itself what to do
	}
	return describeConnection(err)
}

func describeException(e *clickhouse.Exception) failure {
	if e.Code == tooManyPartitions.code && strings.Contains(e.Message, "partitions for single INSERT block") {
		return tooManyPartitions
	}
	if f, known := failureByCode[e.Code]; known {
		return f
	}
	return failure{code: e.Code, name: "OTHER", class: classRetryable, unknown: true, mend: mendUnknown}
}

func schemaName(e *schema.Error) string {
	for kind, name := range map[error]string{
		schema.ErrNotMigrated: "SCHEMA_NOT_MIGRATED", schema.ErrNewer: "SCHEMA_NEWER",
		schema.ErrChecksum: "SCHEMA_STEP_DIFFERS", schema.ErrMissing: "SCHEMA_OBJECT_MISSING", schema.ErrColumns: "SCHEMA_COLUMNS_DIFFER",
		schema.ErrServerTooOld: "SERVER_TOO_OLD",
	} {
		if errors.Is(e.Kind, kind) {
			return name
		}
	}
	return "SCHEMA"
}

// describeConnection names failures to which ClickHouse gave no code. Whether the data was
// stored is not known then; tokens and keys make a second try harmless.
func describeConnection(err error) failure {
	f := failure{name: "NO_ANSWER", class: classRetryable, mend: mendNetwork}
	var (
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
		alert       tls.AlertError
		authority   x509.UnknownAuthorityError
		hostname    x509.HostnameError
		status      *clickhouse.HTTPError
		dns         *net.DNSError
		timeout     net.Error
	)
	switch {
	case errors.As(err, &certificate), errors.As(err, &record), errors.As(err, &alert), errors.As(err, &authority), errors.As(err, &hostname),
		errors.Is(err, http.ErrSchemeMismatch): // plain HTTP answered
		f.name, f.mend = "TLS", mendTLS
	case errors.As(err, &status):
		// A proxy's answer, or not ClickHouse at all.
		f.name = fmt.Sprintf("HTTP_%d", status.StatusCode)
		if status.StatusCode == 401 || status.StatusCode == 403 {
			f.mend = mendLogin
		}
	case errors.Is(err, context.Canceled):
		f.name, f.mend = "CANCELLED", ""
	case errors.As(err, &dns):
		f.name = "NO_SUCH_HOST"
	case errors.Is(err, syscall.ECONNREFUSED):
		f.name = "REFUSED"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		f.name, f.mend = "TIMEOUT", "ClickHouse is slow or hangs: look at its load, or raise timeout"
	}
	return f
}

// explain adds to err what to do about it.
func explain(err error) error {
	if err == nil {
		return nil
	}
	if f := describe(err); f.mend != "" {
		return fmt.Errorf("%w (%s); %s", err, f.name, f.mend)
	}
	return err
}
