package chdb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// EnvLibrary names the environment variable that points at the library file.
const EnvLibrary = "DRIFTLINE_LIBCHDB"

// Remedy is the command that puts the right library in place; every error about a bad library ends with it.
const Remedy = "run `make libchdb` (or scripts/fetch-libchdb.sh) to fetch it, or set " + EnvLibrary + " to its path"

// libraryFile is the file's name on every system: the npm packages use .so on macOS too.
const libraryFile = "libchdb.so"

// LibraryError says which library file cannot be used and why. Its text includes what to run.
type LibraryError struct {
	// Path is the file that was looked at; empty when none was found.
	Path string
	// Reason is one clause: what is wrong with it.
	Reason string
}

// Error returns the cause and the mend in one line.
func (e *LibraryError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("libchdb: %s: %s", e.Reason, Remedy)
	}
	return fmt.Sprintf("libchdb: %s: %s: %s", e.Path, e.Reason, Remedy)
}

// Locate returns the absolute path of the library file. A path given explicitly, or in DRIFTLINE_LIBCHDB, is the only
// one considered; otherwise it looks for .libchdb/libchdb.so beside the executable, one folder above it, and in the
// working directory and its parents. It only finds the file: [CheckFile] judges it.
func Locate(explicit string) (string, error) {
	if explicit == "" {
		explicit = os.Getenv(EnvLibrary)
	}
	if explicit != "" {
		path, err := filepath.Abs(explicit)
		if err != nil {
			return "", &LibraryError{Path: explicit, Reason: err.Error()}
		}
		if err := regularFile(path); err != nil {
			return "", &LibraryError{Path: path, Reason: err.Error()}
		}
		return path, nil
	}
	var places []string
	if exe, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(exe); err == nil {
			exe = real
		}
		dir := filepath.Dir(exe)
		places = append(places, filepath.Join(dir, ".libchdb"), filepath.Join(filepath.Dir(dir), ".libchdb"))
	}
	if dir, err := os.Getwd(); err == nil {
		for {
			places = append(places, filepath.Join(dir, ".libchdb"))
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	for _, place := range places {
		path := filepath.Join(place, libraryFile)
		if regularFile(path) == nil {
			return path, nil
		}
	}
	return "", &LibraryError{Reason: "not found (looked in " + strings.Join(places, ", ") + ")"}
}

func regularFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("no such file")
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("not a regular file")
	}
	return nil
}

// platform names the running system as the npm packages do not: for messages only.
func platform() string { return runtime.GOOS + "/" + runtime.GOARCH }
