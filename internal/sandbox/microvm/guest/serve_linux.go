package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox/microvm/wire"
)

// serve is the agent.
func serve() error {
	channel, err := channel()
	if err != nil {
		return err
	}
	a, err := newAgent()
	if err != nil {
		return err
	}
	return wire.Serve(context.Background(), channel, a)
}

// channel opens the way to the toolrunner that the kernel's command line names.
func channel() (io.ReadWriteCloser, error) {
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return nil, err
	}
	for _, word := range strings.Fields(string(line)) {
		switch kind, ok := strings.CutPrefix(word, ChannelFlag); {
		case ok && kind == ChannelSerial:
			return serial()
		case ok && kind == ChannelVsock:
			return vsock()
		case ok:
			return nil, fmt.Errorf("the kernel command line names an unknown channel: %.40q", word)
		}
	}
	return nil, errors.New("the command line names no " + ChannelFlag)
}

// serial opens the virtio port of the name PortName.
func serial() (io.ReadWriteCloser, error) {
	n, err := subscribeProc()
	if err != nil {
		return nil, err
	}
	defer n.close()
	var device string
	err = n.until("the virtio port "+PortName, func() (bool, error) {
		ports, err := filepath.Glob("/sys/class/virtio-ports/*/name")
		for _, name := range ports {
			// A port that is not there any more is not the one.
			if text, err := os.ReadFile(name); err == nil && strings.TrimSpace(string(text)) == PortName {
				device = "/dev/" + filepath.Base(filepath.Dir(name))
			}
		}
		return device != "", err
	})
	if err == nil {
		err = n.await(device)
	}
	if err != nil {
		return nil, err
	}
	return os.OpenFile(device, os.O_RDWR, 0)
}

// vsock waits for the toolrunner to come.
func vsock() (io.ReadWriteCloser, error) {
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("the kernel has no vsock: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Bind(fd, &unix.SockaddrVM{CID: unix.VMADDR_CID_ANY, Port: VsockPort}); err != nil {
		return nil, fmt.Errorf("bind a vsock: %w", err)
	}
	if err := unix.Listen(fd, 1); err != nil {
		return nil, err
	}
	conn, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("listen on a vsock: %w", err)
	}
	return os.NewFile(uintptr(conn), "vsock"), nil
}
