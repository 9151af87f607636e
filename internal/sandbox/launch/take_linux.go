package launch

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// listening is the first byte of a launcher that sends its listener with it.
	listening = 0x01
	// startWait is how long a launcher may take to become the command.
	startWait = 20 * time.Second
)

// Hand is what a launcher is started with, and what comes back from it.
type Hand struct {
	// Files become its descriptors 3 and 4.
	Files []*os.File
	ours  *os.File
}

// Prepare makes what one launcher needs: its order is a file to be read from its beginning.
func Prepare(order *os.File) (*Hand, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	if err := unix.SetNonblock(pair[0], true); err != nil {
		return nil, errors.Join(err, unix.Close(pair[0]), unix.Close(pair[1]))
	}
	return &Hand{Files: []*os.File{order, os.NewFile(uintptr(pair[1]), "launcher")}, ours: os.NewFile(uintptr(pair[0]), "launcher, outside")}, nil
}

// Started takes the listener of the command's system call filter, less than 0 for none, and waits until the launcher has become
// the command; reason is why it could not.
func (h *Hand) Started(take func(listener int)) (reason string) {
	_ = h.Files[1].Close()
	_ = h.ours.SetReadDeadline(time.Now().Add(startWait))
	var text []byte
	for {
		buf := make([]byte, maxFault)
		n, fd, err := h.receive(buf)
		if fd >= 0 {
			take(fd)
			buf, n = buf[1:], n-1
		}
		text = append(text, buf[:max(n, 0)]...)
		if err != nil || n == 0 && fd < 0 || len(text) >= maxFault {
			return string(text)
		}
	}
}

// receive reads once, and a descriptor that comes with it.
func (h *Hand) receive(buf []byte) (n, fd int, err error) {
	conn, err := h.ours.SyscallConn()
	if err != nil {
		return 0, -1, err
	}
	space := make([]byte, unix.CmsgSpace(4))
	var got int
	waited := conn.Read(func(from uintptr) bool {
		n, got, _, _, err = unix.Recvmsg(int(from), buf, space, unix.MSG_CMSG_CLOEXEC) //nolint:gosec // a descriptor
		return !errors.Is(err, unix.EAGAIN)
	})
	if err = errors.Join(waited, err); err != nil || got == 0 {
		return n, -1, err
	}
	list, err := unix.ParseSocketControlMessage(space[:got])
	if err != nil || len(list) != 1 {
		return n, -1, err
	}
	fds, err := unix.ParseUnixRights(&list[0])
	if err != nil || len(fds) != 1 {
		return n, -1, err
	}
	return n, fds[0], nil
}

// Close lets go of all of it.
func (h *Hand) Close() {
	_ = h.Files[1].Close()
	_ = h.ours.Close()
}
