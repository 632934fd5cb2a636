package engine

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes makes the kernel end the child when this process dies, and keeps a terminal's Ctrl-C from it: its
// parent stops it in order.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// replaceFile puts file in the place of descriptor fd.
func replaceFile(file *os.File, fd int) error { return unix.Dup3(int(file.Fd()), fd, 0) }
