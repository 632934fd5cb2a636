package engine

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// envConfined marks a process that has been through confine, whatever came of it: the text is what the log says.
const envConfined = "DRIFTLINE_ENGINE_CONFINED"

const (
	landlockRead  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	landlockWrite = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	landlockFile = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_EXECUTE
	// Renames across folders, which the engine needs, can be allowed from version 2 on.
	landlockMinABI = 2
)

// confine starts this program anew with the kernel's consent to no file but those the engine needs, and to no outgoing TCP
// connection: whatever a statement finds a way to name, it is not there. It returns what came of it, in the second life, or at
// once when the kernel has no Landlock. It must run before anything else of the program does.
func confine(dataDir, library string) string {
	if said, done := os.LookupEnv(envConfined); done {
		_ = os.Unsetenv(envConfined)
		return said
	}
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || abi < landlockMinABI {
		return "no: this kernel has no Landlock"
	}
	self, err := os.Executable()
	if err != nil {
		return "no: " + err.Error()
	}
	said, err := restrict(int(abi), self, dataDir, library)
	if err != nil {
		return "no: " + err.Error()
	}
	err = syscall.Exec(self, os.Args, append(os.Environ(), envConfined+"="+said))
	// This thread is confined and the others are not: nothing good can be done from here.
	fmt.Fprintf(os.Stderr, "error: engine: start %s again, confined to its folder: %v: --confine=off does without\n", self, err)
	os.Exit(1)
	return ""
}

// restrict confines this thread, and so what is executed from it.
func restrict(abi int, self, dataDir, library string) (string, error) {
	handled := uint64(landlockRead | landlockWrite | unix.LANDLOCK_ACCESS_FS_EXECUTE)
	if abi >= 3 {
		handled |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: handled}
	size := unsafe.Sizeof(attr.Handled_access_fs)
	said := "to its folder"
	if abi >= 4 {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		size += unsafe.Sizeof(attr.Handled_access_net)
		said = "to its folder, without outgoing TCP"
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return "", fmt.Errorf("landlock_create_ruleset: %w", errno)
	}
	defer unix.Close(int(fd))
	rules := map[string]uint64{
		self: unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE, library: unix.LANDLOCK_ACCESS_FS_READ_FILE,
		dataDir:     landlockRead | landlockWrite | unix.LANDLOCK_ACCESS_FS_TRUNCATE,
		"/dev/null": unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE,
		"/proc":     landlockRead,
	}
	for _, path := range []string{"/dev/random", "/dev/urandom", "/dev/zero", "/sys/devices/system", "/sys/fs/cgroup", "/lib", "/lib64", "/usr/lib", "/usr/lib64",
		"/usr/share/zoneinfo", "/etc/localtime", "/etc/timezone", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf"} {
		rules[path] = landlockRead
	}
	for _, dir := range strings.FieldsFunc(os.Getenv("LD_LIBRARY_PATH"), func(r rune) bool { return r == ':' }) {
		rules[dir] = landlockRead
	}
	if loader := interpreter(self); loader != "" {
		rules[loader] = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE
	}
	if name, err := filepath.EvalSymlinks("/proc/self/fd/2"); err == nil {
		// The log may be a file that the program reopens.
		rules[name] |= unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	}
	for path, access := range rules {
		if err := allow(int(fd), path, access&handled); err != nil {
			return "", err
		}
	}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return "", fmt.Errorf("no_new_privs: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return "", fmt.Errorf("landlock_restrict_self: %w", errno)
	}
	return said, nil
}

// allow adds a rule for a path; one that does not exist needs none.
func allow(ruleset int, path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("landlock: %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= landlockFile
	}
	if access == 0 {
		return nil
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("landlock: %s: %w", path, errno)
	}
	return nil
}

// interpreter is the dynamic loader that the kernel starts for a program; empty when there is none.
func interpreter(program string) string {
	file, err := elf.Open(program)
	if err != nil {
		return ""
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			text := make([]byte, p.Filesz)
			if _, err := p.ReadAt(text, 0); err == nil {
				return strings.TrimRight(string(text), "\x00")
			}
		}
	}
	return ""
}
