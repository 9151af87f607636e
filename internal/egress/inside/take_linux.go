package inside

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox/helper"
)

// maxReason is the most bytes of a helper's reason that are read.
const maxReason = 1 << 10

// ErrNoHelper means that the helper did not hand a listener out.
var ErrNoHelper = errors.New("the helper inside the sandbox did not open egress (does the main function of this program call inside.Main first?)")

// Hand is the outside end of one helper.
type Hand struct {
	conn  *net.UnixConn
	files []*os.File
}

// Prepare makes what one command needs: the arguments to start in the place of its own, and the files that it must
// inherit as descriptors fd and up.
func Prepare(command []string, fd int) (h *Hand, args []string, files []*os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "door"), os.NewFile(uintptr(pair[1]), "door inside")
	conn, err := net.FileConn(ours)
	_ = ours.Close()
	if err != nil {
		_ = theirs.Close()
		return nil, nil, nil, fmt.Errorf("door: %w", err)
	}
	self, err := helper.Open()
	if err != nil {
		return nil, nil, nil, errors.Join(fmt.Errorf("door: %w", err), conn.Close(), theirs.Close())
	}
	files = []*os.File{theirs, self}
	own := strconv.Itoa(fd + 1)
	args = append([]string{"/proc/self/fd/" + own, Flag, strconv.Itoa(fd), own}, command...)
	return &Hand{conn: conn.(*net.UnixConn), files: files}, args, files, nil //nolint:forcetypeassert // a pair of AF_UNIX
}

// Started closes what now is the helper's.
func (h *Hand) Started() {
	for _, f := range h.files {
		_ = f.Close()
	}
}

// Take waits for the listener.
func (h *Hand) Take() (net.Listener, error) {
	fds, err := Received(h.conn)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fds), "door listener")
	defer func() { _ = file.Close() }()
	l, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("the listener of the sandbox: %w", err)
	}
	return l, nil
}

func rights(space []byte) (int, error) {
	list, err := unix.ParseSocketControlMessage(space)
	if err != nil || len(list) != 1 {
		return 0, ErrNoHelper
	}
	fds, err := unix.ParseUnixRights(&list[0])
	if err != nil || len(fds) != 1 {
		return 0, ErrNoHelper
	}
	unix.CloseOnExec(fds[0])
	return fds[0], nil
}

// Reason waits until the helper has become the command, and returns "" then, or why it could not.
func (h *Hand) Reason() string {
	text, _ := io.ReadAll(io.LimitReader(h.conn, maxReason)) // it ends when the helper does
	return string(text)
}

// grace is how long the end of a helper is waited for that is over already.
const grace = time.Second

// Ended is called when the helper, or what it became, has ended: Take and Reason return soon.
func (h *Hand) Ended() {
	h.Started()
	_ = h.conn.SetReadDeadline(time.Now().Add(grace))
}

// Close is called last.
func (h *Hand) Close() error { return h.conn.Close() }
