package enginetest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"driftline/internal/chdb"
)

var built struct {
	once sync.Once
	path string
	err  error
}

// Binary returns the path of the engine program, building it if need be.
func Binary() (string, error) { return build() }

// build builds the engine program once for all test binaries that run side by side. The build itself goes to a file that
// nobody executes, so that it can be brought up to date while an earlier build runs; what runs is a copy named by content.
func build() (string, error) {
	built.once.Do(func() { built.path, built.err = buildLocked() })
	return built.path, built.err
}

func buildLocked() (string, error) {
	if _, err := chdb.Locate(""); err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	module, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("build the engine program: go env GOMOD: %w: the go command must be in PATH", err)
	}
	// Two checkouts must not take turns in one file.
	where := sha256.Sum256(module)
	dir := filepath.Join(cache, "driftline-enginetest", hex.EncodeToString(where[:6]))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("build the engine program: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", fmt.Errorf("build the engine program: %w", err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("build the engine program: lock %s: %w", lock.Name(), err)
	}
	output := filepath.Join(dir, "engine.build")
	cmd := exec.Command("go", "build", "-o", output, "driftline/internal/engine/enginemain")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the engine program: %w: %s", err, text)
	}
	content, err := os.ReadFile(output)
	if err != nil {
		return "", fmt.Errorf("build the engine program: %w", err)
	}
	sum := sha256.Sum256(content)
	path := filepath.Join(dir, "engine-"+hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("build the engine program: %w", err)
	}
	if err := removeOld(dir); err != nil {
		return "", err
	}
	if err := os.WriteFile(path+".new", content, 0o700); err != nil {
		return "", fmt.Errorf("build the engine program: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return "", fmt.Errorf("build the engine program: %w", err)
	}
	return path, nil
}

// oldAfter is far longer than any test run, which may still want to restart from its build.
const oldAfter = 24 * time.Hour

// removeOld deletes builds that no test run can want any more.
func removeOld(dir string) error {
	old, err := filepath.Glob(filepath.Join(dir, "engine-*"))
	if err != nil {
		return fmt.Errorf("build the engine program: %w", err)
	}
	for _, path := range old {
		if info, err := os.Stat(path); err != nil || time.Since(info.ModTime()) < oldAfter {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("build the engine program: %w", err)
		}
	}
	return nil
}
