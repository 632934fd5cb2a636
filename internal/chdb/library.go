//go:build linux || darwin

package chdb

import (
	"fmt"
	"strings"
	"sync"

	"github.com/ebitengine/purego"
)

// Library is a loaded libchdb. It cannot be unloaded.
type Library struct {
	path    string
	version string
	fn      functions
}

// functions holds the C functions, named as in chdb.h. Handles are opaque addresses in C memory.
type functions struct {
	version            func() string
	setSignalHandlers  func(enabled int32)
	connect            func(argc int32, argv **byte) *uintptr
	closeConn          func(conn *uintptr)
	query              func(conn uintptr, sql *byte, sqlLen uintptr, format *byte, formatLen uintptr) uintptr
	queryParams        func(conn uintptr, sql *byte, sqlLen uintptr, format *byte, formatLen uintptr, names **byte, nameLens *uintptr, values **byte, valueLens *uintptr, count uintptr) uintptr
	streamQuery        func(conn uintptr, sql *byte, sqlLen uintptr, format *byte, formatLen uintptr) uintptr
	streamQueryParams  func(conn uintptr, sql *byte, sqlLen uintptr, format *byte, formatLen uintptr, names **byte, nameLens *uintptr, values **byte, valueLens *uintptr, count uintptr) uintptr
	streamFetch        func(conn, stream uintptr) uintptr
	streamCancel       func(conn, stream uintptr)
	destroyResult      func(result uintptr)
	streamInsert       func(conn uintptr, sql *byte, sqlLen uintptr, format *byte, formatLen uintptr) uintptr
	streamInsertParams func(conn uintptr, sql *byte, sqlLen uintptr, format *byte, formatLen uintptr, names **byte, nameLens *uintptr, values **byte, valueLens *uintptr, count uintptr) uintptr
	streamAppend       func(insert uintptr, data *byte, length uintptr) int32
	streamDone         func(insert uintptr) uintptr
	cancelInsert       func(insert uintptr)
	insertError        func(insert uintptr) string
	destroyInsert      func(insert uintptr)
	resultBuffer       func(result uintptr) *byte
	resultLength       func(result uintptr) uintptr
	resultElapsed      func(result uintptr) float64
	resultRows         func(result uintptr) uint64
	resultBytes        func(result uintptr) uint64
	storageRowsRead    func(result uintptr) uint64
	storageBytesRead   func(result uintptr) uint64
	rowsWritten        func(result uintptr) uint64
	bytesWritten       func(result uintptr) uint64
	resultError        func(result uintptr) string
	classify           func(conn uintptr, sql *byte, sqlLen uintptr, database *byte, databaseLen uintptr, out *analysis) int32
}

func (f *functions) bindings() map[string]any {
	return map[string]any{
		"chdb_version":                     &f.version,
		"chdb_set_signal_handlers_enabled": &f.setSignalHandlers,
		"chdb_connect":                     &f.connect,
		"chdb_close_conn":                  &f.closeConn,
		"chdb_query_n":                     &f.query,
		"chdb_query_with_params_n":         &f.queryParams,
		"chdb_stream_query_n":              &f.streamQuery,
		"chdb_stream_query_with_params_n":  &f.streamQueryParams,
		"chdb_stream_fetch_result":         &f.streamFetch,
		"chdb_stream_cancel_query":         &f.streamCancel,
		"chdb_destroy_query_result":        &f.destroyResult,
		"chdb_stream_insert_n":             &f.streamInsert,
		"chdb_stream_insert_with_params_n": &f.streamInsertParams,
		"chdb_stream_append":               &f.streamAppend,
		"chdb_stream_done":                 &f.streamDone,
		"chdb_stream_cancel_insert":        &f.cancelInsert,
		"chdb_stream_insert_error":         &f.insertError,
		"chdb_destroy_insert_stream":       &f.destroyInsert,
		"chdb_result_buffer":               &f.resultBuffer,
		"chdb_result_length":               &f.resultLength,
		"chdb_result_elapsed":              &f.resultElapsed,
		"chdb_result_rows_read":            &f.resultRows,
		"chdb_result_bytes_read":           &f.resultBytes,
		"chdb_result_storage_rows_read":    &f.storageRowsRead,
		"chdb_result_storage_bytes_read":   &f.storageBytesRead,
		"chdb_result_rows_written":         &f.rowsWritten,
		"chdb_result_bytes_written":        &f.bytesWritten,
		"chdb_result_error":                &f.resultError,
		"chdb_classify_query_n":            &f.classify,
	}
}

var (
	loadMu sync.Mutex
	loaded *Library
)

// Load checks and loads the library at path, once per process; a second call with the same path returns the same
// library, with another path an error. It keeps libchdb's hands off the process's signal handlers, which the Go
// runtime needs. A bad library is a [*LibraryError].
func Load(path string) (*Library, error) {
	loadMu.Lock()
	defer loadMu.Unlock()
	if loaded != nil {
		if loaded.path != path {
			return nil, fmt.Errorf("libchdb: already loaded from %s, cannot load %s as well", loaded.path, path)
		}
		return loaded, nil
	}
	if err := CheckFile(path); err != nil {
		return nil, err
	}
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, &LibraryError{Path: path, Reason: "the system loader refuses it: " + err.Error()}
	}
	lib := &Library{path: path}
	bindings := lib.fn.bindings()
	have := make(map[string]bool, len(bindings))
	for name := range bindings {
		if _, err := purego.Dlsym(handle, name); err == nil {
			have[name] = true
		}
	}
	if err := missingSymbols(have); err != nil {
		return nil, &LibraryError{Path: path, Reason: err.Error()}
	}
	for name, target := range bindings {
		purego.RegisterLibFunc(target, handle, name)
	}
	lib.version = lib.fn.version()
	if !strings.HasPrefix(lib.version, WantVersion+".") {
		return nil, &LibraryError{Path: path, Reason: fmt.Sprintf("wrong version: it is %s, driftline needs %s.x", lib.version, WantVersion)}
	}
	lib.fn.setSignalHandlers(0)
	loaded = lib
	return lib, nil
}

// Version returns the library's own version, such as "26.7.3".
func (l *Library) Version() string { return l.version }

// Path returns the file the library was loaded from.
func (l *Library) Path() string { return l.path }
