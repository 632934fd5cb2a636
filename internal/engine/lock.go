//go:build linux || darwin

package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const lockFile = "driftline-engine.lock"

// holder is what the lock file says of the process that holds it; for people only, the lock itself is the kernel's.
type holder struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Listen  string    `json:"listen"`
	Started time.Time `json:"started"`
}

// folderLock makes sure that one engine at a time writes to a folder. It ends with the process, however that ends.
type folderLock struct{ file *os.File }

// openFolder creates the data folder if need be, checks that it can be written to and locks it.
func openFolder(dir string, self holder) (*folderLock, error) {
	if dir == "" {
		return nil, errors.New("engine: no data folder given: set --data-dir")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, folderError(dir, err)
	}
	path := filepath.Join(dir, lockFile)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, folderError(dir, err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer file.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("engine: lock %s: %w: put the data folder on a local file system", path, err)
		}
		var other holder
		if json.NewDecoder(file).Decode(&other) != nil || other.PID == 0 {
			return nil, fmt.Errorf("engine: data folder %s is in use by another engine: stop it, or give this one another --data-dir", dir)
		}
		return nil, fmt.Errorf("engine: data folder %s is in use by process %d on %s, listening on %s since %s: stop it, reach it at that address, or give this one another --data-dir",
			dir, other.PID, other.Host, other.Listen, other.Started.Format(time.RFC3339))
	}
	lock := &folderLock{file}
	if err := lock.describe(self); err != nil {
		lock.release()
		return nil, folderError(dir, err)
	}
	return lock, nil
}

func (l *folderLock) describe(h holder) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err = l.file.WriteAt(append(text, '\n'), 0)
	return err
}

func (l *folderLock) release() { _ = l.file.Close() }

func folderError(dir string, err error) error {
	mend := "check the path, or give another --data-dir"
	switch {
	case errors.Is(err, fs.ErrPermission):
		mend = "give the engine's user write permission, or give another --data-dir"
	case errors.Is(err, unix.EROFS):
		mend = "the file system is read-only: mount it writable, or give another --data-dir"
	case errors.Is(err, unix.ENOSPC):
		mend = "the disk is full: free space, or give another --data-dir"
	case errors.Is(err, unix.ENOTDIR) || errors.Is(err, fs.ErrExist):
		mend = "a part of the path is a file: give another --data-dir"
	}
	return fmt.Errorf("engine: data folder %s cannot be written to: %w: %s", dir, err, mend)
}
