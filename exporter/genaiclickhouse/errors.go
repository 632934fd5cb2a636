package genaiclickhouse

import (
	"errors"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2"

	"driftline/internal/rows"
)

// errorClass says whether trying again can help.
type errorClass string

const (
	classRetryable errorClass = "retryable"
	classPermanent errorClass = "permanent"
)

// permanentCodes are ClickHouse's errors about the content of an insert: the same bytes
// fail again. Whatever is not listed may pass later (memory, disk, load, network, login,
// rights, a missing table), so the batch is kept and tried again.
var permanentCodes = map[int32]string{
	6:   "CANNOT_PARSE_TEXT",
	7:   "INCORRECT_NUMBER_OF_COLUMNS",
	9:   "SIZES_OF_COLUMNS_DOESNT_MATCH",
	19:  "SIZE_OF_FIXED_STRING_DOESNT_MATCH",
	20:  "NUMBER_OF_COLUMNS_DOESNT_MATCH",
	26:  "CANNOT_PARSE_QUOTED_STRING",
	27:  "CANNOT_PARSE_INPUT_ASSERTION_FAILED",
	36:  "BAD_ARGUMENTS",
	38:  "CANNOT_PARSE_DATE",
	41:  "CANNOT_PARSE_DATETIME",
	43:  "ILLEGAL_TYPE_OF_ARGUMENT",
	44:  "ILLEGAL_COLUMN",
	53:  "TYPE_MISMATCH",
	62:  "SYNTAX_ERROR",
	69:  "ARGUMENT_OUT_OF_BOUND",
	70:  "CANNOT_CONVERT_TYPE",
	72:  "CANNOT_PARSE_NUMBER",
	117: "INCORRECT_DATA",
	131: "TOO_LARGE_STRING_SIZE",
	190: "SIZES_OF_ARRAYS_DONT_MATCH",
	321: "VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE",
	349: "CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN",
	469: "VIOLATED_CONSTRAINT",
}

// schemaCodes say that the tables are not those that were found at the last check.
var schemaCodes = map[int32]bool{
	10: true, // NOT_FOUND_COLUMN_IN_BLOCK
	16: true, // NO_SUCH_COLUMN_IN_TABLE
	47: true, // UNKNOWN_IDENTIFIER
	60: true, // UNKNOWN_TABLE
	81: true, // UNKNOWN_DATABASE
}

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

// classify returns ClickHouse's error code, 0 when it gave none, and the class.
func classify(err error) (code int32, class errorClass) {
	var column *columnError
	if errors.As(err, &column) {
		return 0, classPermanent
	}
	var exception *clickhouse.Exception
	if !errors.As(err, &exception) {
		return 0, classRetryable
	}
	if _, permanent := permanentCodes[exception.Code]; permanent {
		return exception.Code, classPermanent
	}
	return exception.Code, classRetryable
}
