package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// kernelNews is the multicast group on which the kernel tells of devices.
const kernelNews = 1

// news receives what the kernel says when devices come and change.
type news struct{ fd int }

// subscribeProc begins to receive. What is looked for after that is not missed.
func subscribeProc() (*news, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
		unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("receive device events: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelNews}); err != nil {
		return nil, errors.Join(fmt.Errorf("receive device events: %w", err), unix.Close(fd))
	}
	return &news{fd}, nil
}

func (n *news) close() { _ = unix.Close(n.fd) } // it was only read

// until looks, and looks again whenever the kernel has news, until there is what is looked for. After deviceWait it is
// os.ErrDeadlineExceeded.
func (n *news) until(what string, look func() (bool, error)) error {
	for end := time.Now().Add(deviceWait); ; {
		if there, err := look(); there || err != nil {
			return err
		}
		if err := ready(n.fd, unix.POLLIN, end); err != nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
		n.drain()
	}
}

// drain reads all that was said: that there are news is enough, also where some were lost.
func (n *news) drain() {
	buf := make([]byte, 8<<10)
	for {
		_, err := unix.Read(n.fd, buf)
		if err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ENOBUFS) {
			return
		}
	}
}

// await waits until a path is there.
func (n *news) await(path string) error {
	return n.until(path, func() (bool, error) {
		_, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	})
}

// ready waits until a descriptor has one of events, or an error. At end it is os.ErrDeadlineExceeded.
func ready(fd int, events int16, end time.Time) error {
	for {
		left := time.Until(end)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		list := []unix.PollFd{{Fd: int32(fd), Events: events}}
		switch n, err := unix.Poll(list, int((left+time.Millisecond-1)/time.Millisecond)); {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case n > 0:
			return nil
		}
	}
}

// emptied kills a control group and waits until no one is in it. The kernel tells of each change of its cgroup.events.
func emptied(group string) error {
	f, err := os.Open(group + "/cgroup.events")
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	for end := time.Now().Add(groupWait); ; {
		text := make([]byte, 256)
		n, err := f.ReadAt(text, 0) // which also says that changes are told from here on
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if strings.Contains(string(text[:n]), "populated 0") {
			return nil
		}
		if err := killGroup(group); err != nil {
			return fmt.Errorf("kill the processes that a command left: %w", err)
		}
		if err := ready(int(f.Fd()), unix.POLLPRI, end); err != nil {
			return fmt.Errorf("processes that a command left do not end: %w", err)
		}
	}
}
