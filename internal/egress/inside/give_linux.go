package inside

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Give hands out a listener that another helper opened on Port of a sandbox's own loopback: files are those that
// Prepare made for the command, whose place that helper takes.
func Give(files []*os.File, listener int) error {
	if len(files) == 0 {
		return ErrNoHelper
	}
	if err := unix.Sendmsg(int(files[0].Fd()), []byte{ready}, unix.UnixRights(listener), nil, 0); err != nil {
		return fmt.Errorf("send the listener: %w", err)
	}
	return nil
}

// Received takes a listener's descriptor from a connection over which it was handed out.
func Received(conn *net.UnixConn) (int, error) {
	var said [1]byte
	space := make([]byte, unix.CmsgSpace(4))
	n, got, _, _, err := conn.ReadMsgUnix(said[:], space)
	if err != nil || n != 1 || said[0] != ready {
		return 0, ErrNoHelper
	}
	return rights(space[:got])
}
