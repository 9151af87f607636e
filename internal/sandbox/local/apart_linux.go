package local

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox"
)

// Describe tells of one process of this machine, or of the container that this program runs in.
func Describe(pid int) (sandbox.ProcessInfo, bool) { return infoOf(pid) }

// Mine reports whether a name is that of something that a sandbox of this very process made.
func Mine(name string) bool {
	owner, ok := ownerIn(name)
	return ok && owner == ownOwner()
}

// EndByHandle kills a process by its handle and waits for it; of the first one of a namespace, for all others in it
// too. A negative handle is none.
func EndByHandle(fd int) {
	if fd < 0 || unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) != nil {
		return
	}
	waitExited(fd, time.Now().Add(killWait))
}

// ParentOf returns the parent of a process, -1 where there is no such process. A process that was not waited for yet
// is not alive.
func ParentOf(pid int) (parent int, alive bool) {
	s, ok := statOf(pid)
	if !ok {
		return -1, false
	}
	return s.parent, !s.dead()
}

// Apart calls f on a thread that ends with it.
func Apart(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never let go: the thread is good for nothing else
		if unix.Gettid() == unix.Getpid() {
			// The first thread stands for the process in /proc. While it is held here, another one is taken.
			defer runtime.UnlockOSThread()
			Apart(f)
			return
		}
		f()
	}()
	<-done
}
