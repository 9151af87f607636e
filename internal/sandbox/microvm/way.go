package microvm

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"

	"github.com/inspan/inspan/internal/egress/inside"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/microvm/wire"
)

// maxPaths is how many connections one machine may have to the outside at a time.
const maxPaths = 256

// way is the way out of one machine: what connects to the agent's port comes over the channel and goes to a listener of
// the sandbox's Door.
type way struct {
	pass     sandbox.EgressSession
	listener *net.UnixListener
	work     sync.WaitGroup
}

// lead opens the way out.
func (m *machine) lead(egress sandbox.Egress) error {
	pass, err := egress.Pass([]string{"machine"}, channelFD)
	if err != nil {
		return err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(m.dir, "door"), Net: "unix"})
	if err != nil {
		return errors.Join(fmt.Errorf("egress: %w", err), pass.Close())
	}
	file, err := l.File()
	if err == nil {
		err = errors.Join(inside.Give(pass.Files, int(file.Fd())), file.Close())
	}
	pass.Started()
	if err != nil {
		return errors.Join(fmt.Errorf("egress: %w", err), l.Close(), pass.Close())
	}
	m.way = &way{pass: pass, listener: l}
	m.way.work.Go(func() { m.carry(l.Addr()) })
	return nil
}

// carry takes connections from the machine until it is gone. Those beyond maxPaths at a time wait.
func (m *machine) carry(to net.Addr) {
	free := make(chan struct{}, maxPaths) // one for each connection
	for {
		free <- struct{}{}
		far, err := m.Accept()
		if err != nil {
			return
		}
		m.way.work.Go(func() {
			defer func() { <-free }()
			near, err := net.Dial(to.Network(), to.String())
			if err != nil {
				_ = far.Close() // whoever asked sees it
				return
			}
			wire.Join(near, far)
		})
	}
}

// close closes the way out when the machine has ended.
func (w *way) close() {
	_ = w.listener.Close() // the Door has one of its own
	_ = w.pass.Close()     // the machine began before: there is no command that it could not start
	w.work.Wait()
}
