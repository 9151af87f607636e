package docker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/egress/inside"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/docker/within"
)

// doorWait is how long the listener of a container may take to come.
const egressWait = 10 * time.Second

// entrance is the way out of one container. All its commands have the same network, so there is one for all of them:
// the first process listens, before anything else runs, and hands the listener out over a socket in a directory of the
// sandbox.
type entrance struct {
	pass     sandbox.EgressSession
	path     string
	listener *net.UnixListener // nil where the sandbox has no way out
	shut     func() error
}

// door readies the way out, if the sandbox has one.
func (b *instance) egress() (*entrance, error) {
	egress := b.Config().Egress
	if egress == nil {
		return &entrance{}, nil
	}
	e := &entrance{path: b.Private("door/" + within.EgressName)}
	if err := os.Remove(e.path); err != nil && !errors.Is(err, os.ErrNotExist) { // of a container that ended
		return nil, fmt.Errorf("egress: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: e.path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("egress: %w (the path of the private directory may be too long for a socket)", err)
	}
	if err := b.give("door/" + within.EgressName); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if e.pass, err = egress.Pass([]string{within.Path}, 0); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	e.listener, e.shut = l, sync.OnceValue(e.pass.Close)
	return e, nil
}

// open takes the listener and hands it on.
func (e *entrance) open() error {
	if e.listener == nil {
		return nil
	}
	err := e.take()
	e.pass.Started()
	return errors.Join(err, e.listener.Close())
}

func (e *entrance) take() error {
	if err := e.listener.SetDeadline(time.Now().Add(egressWait)); err != nil {
		return err
	}
	conn, err := e.listener.AcceptUnix()
	if err != nil {
		return fmt.Errorf("egress: %w", err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(egressWait))
	fd, err := inside.Received(conn)
	if err != nil {
		return fmt.Errorf("egress: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	return inside.Give(e.pass.Files, fd)
}

// close closes the way out when the container has ended. It may be called again.
func (e *entrance) close() error {
	if e.listener == nil {
		return nil
	}
	_ = e.listener.Close() // it may be closed already
	return e.shut()
}
