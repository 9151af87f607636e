package broker

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call is struct seccomp_notif of seccomp_unotify(2).
type call struct {
	ID      uint64
	Thread  uint32
	Flags   uint32
	Number  int32
	Machine uint32
	At      uint64
	Args    [6]uint64
}

// answer is struct seccomp_notif_resp.
type answer struct {
	ID    uint64
	Value int64
	Error int32
	Flags uint32
}

// Broker answers the calls of one command and all that it started.
type Broker struct {
	rules    Rules
	listener *os.File
	work     sync.WaitGroup

	mu    sync.Mutex
	ended bool
	// Guarded by mu: sockets that are being connected, as descriptors of this process.
	connecting map[int]struct{}
}

// Start answers what comes from the listener of a filter, whose descriptor is the broker's from now on, until Close.
func Start(fd int, r Rules) (*Broker, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("listener of the system call filter: %w", err)
	}
	// Whoever asks is woken on the processor that answers: it goes on at once. An older kernel wakes it as ever.
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS,
		unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	b := &Broker{rules: r, listener: os.NewFile(uintptr(fd), "system calls"), connecting: make(map[int]struct{})}
	b.work.Go(b.serve)
	return b, nil
}

// Close ends the broker, and connections that are being made.
func (b *Broker) Close() {
	b.mu.Lock()
	b.ended = true
	for fd := range b.connecting {
		_ = unix.Shutdown(fd, unix.SHUT_RDWR)
	}
	b.mu.Unlock()
	_ = b.listener.Close()
	b.work.Wait()
}

// serve answers until the listener is closed or no process has the filter any more.
func (b *Broker) serve() {
	conn, err := b.listener.SyscallConn()
	if err != nil {
		return
	}
	for over := false; !over; {
		err := conn.Read(func(fd uintptr) bool {
			var waits bool
			if waits, over = ready(fd); waits {
				b.next(fd)
			}
			return waits || over
		})
		over = over || err != nil
	}
}

// ready reports whether a call waits, and whether none will come any more.
func ready(fd uintptr) (waits, over bool) {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // a descriptor
	if n, err := unix.Poll(poll, 0); err != nil || n == 0 {
		return false, false
	}
	return poll[0].Revents&unix.POLLIN != 0, poll[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0
}

// next takes a call and answers it.
func (b *Broker) next(fd uintptr) {
	var c call
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_RECV,
		uintptr(unsafe.Pointer(&c))); errno != 0 {
		return // whoever asked was killed meanwhile
	}
	b.handle(fd, c)
}

// handle answers a call; one that may take long is answered by a goroutine.
func (b *Broker) handle(fd uintptr, c call) {
	p := process{thread: int(c.Thread), valid: func() bool { return b.asks(fd, c.ID) }}
	switch {
	case c.Number == unix.SYS_CONNECT:
		b.connect(p, c)
	case naming(c.Number) >= 0:
		b.reply(c.ID, p.itself(c.Args[naming(c.Number)]), true)
	default:
		b.reply(c.ID, b.change(p, c), false)
	}
}

// asks reports whether a call still waits: then its process is the one that asked, and its memory is as it was.
func (b *Broker) asks(fd uintptr, id uint64) bool {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, uintptr(unsafe.Pointer(&id)))
	return errno == 0
}

// reply answers a call with an error, or with 0; goes says that the kernel carries it out where there is no error.
func (b *Broker) reply(id uint64, err error, goes bool) {
	a := answer{ID: id}
	switch {
	case err != nil:
		a.Error = -int32(number(err)) //nolint:gosec // errors of system calls are small
	case goes:
		a.Flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
	}
	conn, err := b.listener.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		// it may be gone
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&a)))
	})
}

// number is the error of a system call that a command sees.
func number(err error) syscall.Errno {
	if errno, ok := errors.AsType[syscall.Errno](err); ok && errno != 0 {
		return errno
	}
	return unix.EPERM
}

// naming returns which argument of a call is the id of a process, less than 0 where none is.
func naming(number int32) int {
	switch number {
	case unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM,
		unix.SYS_SCHED_SETATTR:
		return 0
	case unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET:
		return 1
	default:
		return -1
	}
}
