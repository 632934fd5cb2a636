package schema

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// newOwner names this process as a holder: where it runs, which process it is, and a
// random part that no other holder ever has, at the end.
func newOwner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	var id [8]byte
	_, _ = rand.Read(id[:])
	return fmt.Sprintf("%s pid %d in %s id %s", host, os.Getpid(), processSpace(), hex.EncodeToString(id[:]))
}

// processSpace identifies the set of processes that this one's id belongs to: the boot of
// the machine and the process namespace, since containers count from 1 again. It is "-"
// where the system does not say, as outside Linux.
func processSpace() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "-"
	}
	namespace, err := os.Readlink(filepath.Join("/proc/self/ns", "pid"))
	if err != nil {
		return "-"
	}
	return strings.TrimSpace(string(boot)) + "/" + strings.Trim(strings.TrimPrefix(namespace, "pid:"), "[]")
}

var ownerProcess = regexp.MustCompile(` pid (\d+) in (\S+) id [0-9a-f]+$`)

// ownerIsDead says whether the holder was a process of this very process space that is no
// longer there. False is "alive or not known": then only the lock's age tells. A process
// id that came into use again makes it false, never true.
func ownerIsDead(holder string) bool {
	m := ownerProcess.FindStringSubmatch(holder)
	if m == nil || m[2] == "-" || m[2] != processSpace() {
		return false
	}
	if _, err := os.Stat("/proc/1"); err != nil {
		return false // other users' processes are hidden here, so absence says nothing
	}
	_, err := os.Stat(filepath.Join("/proc", m[1]))
	return errors.Is(err, fs.ErrNotExist)
}
