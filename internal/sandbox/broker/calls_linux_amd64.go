package broker

import "golang.org/x/sys/unix"

// Calls that later processors do not have.
const (
	sysChmod     = unix.SYS_CHMOD
	sysChown     = unix.SYS_CHOWN
	sysLchown    = unix.SYS_LCHOWN
	sysUtime     = unix.SYS_UTIME
	sysUtimes    = unix.SYS_UTIMES
	sysFutimesat = unix.SYS_FUTIMESAT
)
