package engine

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes keeps a terminal's Ctrl-C from the child: its parent stops it in order. There is no parent-death signal
// here; the child watches its standard input instead.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// replaceFile puts file in the place of descriptor fd.
func replaceFile(file *os.File, fd int) error { return unix.Dup2(int(file.Fd()), fd) }
