//go:build slow

package faults

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
)

// network is the wires between the parts of a world: each pair of parts that speaks has a link of its own. Cutting a
// wire keeps what is under way, as the kernel of a machine behind a broken switch does; it comes through when the wire
// is whole again, unless one end has given the connection up.
type network struct {
	t     *testing.T
	mu    sync.Mutex
	links map[[2]string]*link
	conns sync.WaitGroup
}

// link carries connections from one part to another.
type link struct {
	listener net.Listener
	target   string
	// there carries what the part that connects says, back what it is answered.
	there, back *wire
	done        chan struct{}

	mu sync.Mutex
	// conns that are joined now, both ends of each, guarded by mu.
	conns map[net.Conn]bool
}

// drop closes the connections there are, as a firewall does that answers for the other end.
func (l *link) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.Close() // its copies end with that
	}
}

func (l *link) hold(c net.Conn) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.conns, c)
	}
}

// wire is one direction of a link.
type wire struct {
	mu sync.Mutex
	// whole is closed while bytes pass, guarded by mu.
	whole chan struct{}
	cut   bool
}

func newWire() *wire {
	w := &wire{whole: make(chan struct{})}
	close(w.whole)
	return w
}

func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case cut && !w.cut:
		w.whole = make(chan struct{})
	case !cut && w.cut:
		close(w.whole)
	}
	w.cut = cut
}

// pass waits until bytes pass, or done.
func (w *wire) pass(done <-chan struct{}) bool {
	for {
		w.mu.Lock()
		whole := w.whole
		w.mu.Unlock()
		select {
		case <-done:
			return false
		case <-whole:
		}
		w.mu.Lock()
		cut := w.cut
		w.mu.Unlock()
		if !cut {
			return true
		}
	}
}

func newNetwork(t *testing.T) *network {
	n := &network{t: t, links: map[[2]string]*link{}}
	t.Cleanup(func() {
		n.mu.Lock()
		for _, l := range n.links {
			close(l.done)
			_ = l.listener.Close() // its loop ends with that
		}
		n.mu.Unlock()
		n.conns.Wait()
	})
	return n
}

// link returns the address at which from reaches to, whose own address is target.
func (n *network) link(from, to, target string) string {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	key := [2]string{from, to}
	if l := n.links[key]; l != nil {
		return l.listener.Addr().String()
	}
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", freePort(n.t)))
	if err != nil {
		n.t.Fatal(err)
	}
	l := &link{listener: listener, target: target, there: newWire(), back: newWire(), done: make(chan struct{}), conns: map[net.Conn]bool{}}
	n.links[key] = l
	n.conns.Go(func() { n.accept(l) })
	return listener.Addr().String()
}

func (n *network) accept(l *link) {
	for {
		c, err := l.listener.Accept()
		if err != nil {
			return
		}
		n.conns.Go(func() { l.carry(c) })
	}
}

// carry joins a connection with its target for as long as both ends want it.
func (l *link) carry(near net.Conn) {
	defer near.Close()
	defer l.hold(near)()
	if !l.there.pass(l.done) || !l.back.pass(l.done) {
		return
	}
	far, err := net.Dial("tcp", l.target)
	if err != nil {
		return
	}
	defer far.Close()
	defer l.hold(far)()
	gone := make(chan struct{})
	var end sync.Once
	var both sync.WaitGroup
	shut := func() { end.Do(func() { close(gone); near.Close(); far.Close() }) }
	both.Go(func() { defer shut(); l.there.copy(far, near, gone) })
	both.Go(func() { defer shut(); l.back.copy(near, far, gone) })
	select {
	case <-gone:
	case <-l.done:
		shut()
	}
	both.Wait()
}

func (w *wire) copy(dst io.Writer, src io.Reader, gone <-chan struct{}) {
	buf := make([]byte, 64<<10)
	for w.pass(gone) {
		n, err := src.Read(buf)
		if n > 0 {
			if !w.pass(gone) {
				return
			}
			if _, werr := dst.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// side is a set of parts.
type side func(part string) bool

func only(parts ...string) side {
	return func(part string) bool {
		for _, p := range parts {
			if p == part {
				return true
			}
		}
		return false
	}
}

func not(s side) side { return func(part string) bool { return !s(part) } }

// silence cuts what from says to to, in this direction only; heal undoes it.
func (n *network) silence(from, to side) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for key, l := range n.links {
		if from(key[0]) && to(key[1]) {
			l.there.set(true)
		}
		if from(key[1]) && to(key[0]) {
			l.back.set(true)
		}
	}
}

// part cuts both directions between two sides.
func (n *network) part(a, b side) {
	n.silence(a, b)
	n.silence(b, a)
}

// sever cuts both directions between two sides and ends the connections there are.
func (n *network) sever(a, b side) {
	n.part(a, b)
	n.mu.Lock()
	defer n.mu.Unlock()
	for key, l := range n.links {
		if a(key[0]) && b(key[1]) || b(key[0]) && a(key[1]) {
			l.drop()
		}
	}
}

// heal makes all wires whole.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.links {
		l.there.set(false)
		l.back.set(false)
	}
}
