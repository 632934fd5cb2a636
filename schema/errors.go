package schema

import (
	"errors"
	"fmt"
)

// Kinds of mismatch between a database and this binary; find them with errors.Is.
var (
	// ErrNotMigrated says that steps this binary needs have not been applied.
	ErrNotMigrated = errors.New("schema not migrated")
	// ErrNewer says that a newer binary has migrated the database.
	ErrNewer = errors.New("schema newer than this binary")
	// ErrChecksum says that an applied step is not the one this binary has.
	ErrChecksum = errors.New("schema step differs")
	// ErrMissing says that a table or view of an applied step is not there.
	ErrMissing = errors.New("schema object missing")
	// ErrColumns says that a table's columns are not those of the applied steps.
	ErrColumns = errors.New("schema columns differ")
	// ErrServerTooOld says that the server is older than MinServerVersion.
	ErrServerTooOld = errors.New("server too old")
	// ErrLocked says that another migration held the lock for longer than the wait.
	ErrLocked = errors.New("schema locked by another migration")
)

// Error is a mismatch with its cause and what to do about it.
type Error struct {
	// Kind is one of the Err values.
	Kind error
	// Cause says what was found and where.
	Cause string
	// Mend says what to do.
	Mend string
}

// Error is kind, cause and mend in one line.
func (e *Error) Error() string { return fmt.Sprintf("%v: %s; %s", e.Kind, e.Cause, e.Mend) }

// Unwrap is the kind, for errors.Is.
func (e *Error) Unwrap() error { return e.Kind }

// Permanent says whether waiting cannot mend err: another binary or an operator must act
// first. A database that is not migrated yet or not reached yet may become right by itself.
func Permanent(err error) bool {
	return errors.Is(err, ErrNewer) || errors.Is(err, ErrChecksum) || errors.Is(err, ErrColumns) || errors.Is(err, ErrServerTooOld)
}
