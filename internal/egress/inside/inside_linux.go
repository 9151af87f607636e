package inside

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"
)

// Main is the helper where this process was started as one; otherwise it does nothing and returns false. It is to be
// called before anything else. Where it returns true the command could not begin: the process is to end with Failed.
func Main() bool {
	if len(os.Args) < 2 || os.Args[1] != Flag {
		return false
	}
	if err := become(os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "inspan: egress of the sandbox:", err)
	}
	return true
}

// become opens the door and turns into the command: args are the descriptor of the socket, that of this program, and
// the command.
func become(args []string) error {
	const least = 3
	if len(args) < least {
		return errors.New("it is a helper for sandboxes and is not run by hand")
	}
	var fds [2]int
	for i := range fds {
		n, err := strconv.Atoi(args[i])
		if err != nil || n <= 2 {
			return fmt.Errorf("argument %q is not a descriptor", args[i])
		}
		fds[i] = n
		unix.CloseOnExec(n)
	}
	out, command := fds[0], args[2:]
	if err := handOut(out); err != nil {
		return err
	}
	path, err := exec.LookPath(command[0])
	if err == nil {
		err = unix.Exec(path, command, os.Environ())
	}
	text := fmt.Sprintf("%s: %v", command[0], err)
	_, _ = unix.Write(out, []byte(text)) // whoever reads it reports it
	return errors.New(text)
}

// handOut listens and sends the listener.
func handOut(out int) error {
	const waiting = 128
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: Port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return fmt.Errorf("bind 127.0.0.1:%d: %w", Port, err)
	}
	if err := unix.Listen(fd, waiting); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if err := unix.Sendmsg(out, []byte{ready}, unix.UnixRights(fd), nil, 0); err != nil {
		return fmt.Errorf("send the listener: %w", err)
	}
	return nil
}
