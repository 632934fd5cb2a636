package engine

import "syscall"

// childAttributes makes the kernel end the child when this process dies, and keeps a terminal's Ctrl-C from it: its
// parent stops it in order.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
