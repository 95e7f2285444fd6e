package sqlite

import (
	"os"

	"golang.org/x/sys/windows"
)

// errHeld says that another process holds the lock.
const errHeld = windows.ERROR_LOCK_VIOLATION

// flock locks one byte far behind the file's end, so that its text can still be read.
func flock(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{Offset: 1 << 30})
}
