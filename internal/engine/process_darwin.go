package engine

import "syscall"

// childAttributes keeps a terminal's Ctrl-C from the child: its parent stops it in order. There is no parent-death signal
// here; the child watches its standard input instead.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
