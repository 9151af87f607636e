package launch

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox/helper"
)

const (
	// listening is the first byte of a launcher that sends its listener with it.
	listening = 0x01
	// startWait is how long a launcher may take to become the command.
	startWait = 20 * time.Second
)

// Hand is what a launcher is started with, and what comes back from it.
type Hand struct {
	// Files are inherited by the launcher.
	Files        []*os.File
	ours, theirs *os.File
	mine         []*os.File // to be closed besides
}

// Prepare makes what one launcher needs: its order is a file to be read from its beginning; rules, where not nil, is
// the ruleset of Order.Programs and stays the caller's. Files become its descriptors from 3 on, in this order.
func Prepare(order, rules *os.File) (*Hand, error) {
	h, err := hand()
	if err != nil {
		return nil, err
	}
	h.Files, h.mine = []*os.File{order, h.theirs}, []*os.File{order}
	if rules != nil {
		h.Files = append(h.Files, rules)
	}
	return h, nil
}

// PrepareConnect makes what the launcher of a command needs that ConnectWord asks for. Files become descriptors fd and
// up; args are started in the place of the command.
func PrepareConnect(command []string, fd int) (h *Hand, args []string, err error) {
	if h, err = hand(); err != nil {
		return nil, nil, err
	}
	self, err := helper.Open()
	if err != nil {
		h.Close()
		return nil, nil, err
	}
	h.Files, h.mine = []*os.File{h.theirs, self}, []*os.File{self}
	own := strconv.Itoa(fd + 1)
	return h, append([]string{"/proc/self/fd/" + own, ConnectWord, strconv.Itoa(fd), own}, command...), nil
}

func hand() (*Hand, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	if err := unix.SetNonblock(pair[0], true); err != nil {
		return nil, errors.Join(err, unix.Close(pair[0]), unix.Close(pair[1]))
	}
	return &Hand{ours: os.NewFile(uintptr(pair[0]), "launcher, outside"), theirs: os.NewFile(uintptr(pair[1]),
		"launcher")}, nil
}

// Started takes the listener of the command's system call filter, less than 0 for none, and waits until the launcher
// has become the command; reason is why it could not.
func (h *Hand) Started(take func(listener int)) (reason string) {
	_ = h.theirs.Close()
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

// Close lets go of all of it, the order too.
func (h *Hand) Close() {
	for _, f := range append(h.mine, h.ours, h.theirs) {
		_ = f.Close() // a second close has no consequence
	}
}
