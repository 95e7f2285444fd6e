//go:build unix

package sqlite

import (
	"os"
	"syscall"
)

// errHeld says that another process holds the lock.
const errHeld = syscall.EWOULDBLOCK

func flock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
