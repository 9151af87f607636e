package within

import (
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// Main is the helper where this process was started as one: then asked is true and the process is to end with code. It
// is to be called before anything else.
func Main() (code int, asked bool) {
	if len(os.Args) != 3 || os.Args[1] != Flag {
		return 0, false
	}
	line := NewLine(os.Stdin, os.Stdout)
	var err error
	switch os.Args[2] {
	case RoleInit:
		err = first(line)
	case RoleExec:
		err = parent(line)
	default:
		err = fmt.Errorf("unknown part %q", os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "inspan: the helper in the container:", err)
		return 1, true
	}
	return 0, true
}

// hide keeps commands, which have the helper's user, from reading and tracing it.
func hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide from commands: %w", err)
	}
	return nil
}

// first is the first process of a container. The kernel keeps signals from inside of a container from it as long as it
// ignores them, and ends all others when it ends.
func first(line *Line) error {
	signal.Ignore() // children that lost their parent are reaped by the kernel then
	var order Setup
	if err := line.Want(FrameOrder, &order); err != nil {
		return err
	}
	var said Ready
	err := verify(order.Checks)
	if err == nil {
		err = sameUsers(order.Users)
	}
	if err == nil {
		err = hide() // not before: what is hidden cannot look at itself either
	}
	if err == nil && order.Egress {
		err = openEgress(EgressDir + "/" + EgressName)
	}
	if err != nil {
		said.Fault = err.Error()
	}
	if err := line.SendJSON(FrameBegun, said); err != nil {
		return err
	}
	for {
		if _, _, err := line.Next(); err != nil {
			return nil //nolint:nilerr // the toolrunner has gone, and so does its container
		}
	}
}
