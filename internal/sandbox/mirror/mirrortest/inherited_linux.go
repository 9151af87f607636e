package mirrortest

import "golang.org/x/sys/unix"

// keepInherited keeps from programs the descriptors that the test program itself was started with.
func keepInherited() {
	_ = unix.CloseRange(3, ^uint(0)>>32, unix.CLOSE_RANGE_CLOEXEC) // a kernel without it has no better way either
}
