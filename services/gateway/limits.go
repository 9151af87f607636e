package gateway

import (
	"io"
	"log"
	"math"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limits counts what callers do.
type limits struct {
	rate            float64
	streams, forOne int

	mu sync.Mutex
	// Guarded by mu: the rate of each caller, and the streams that each has open.
	callers map[string]*rate.Limiter
	open    map[string]int
	all     int
}

// ofOne is which part of all streams one caller may have.
const ofOne = 4

func newLimits(perSecond float64, streams int) *limits {
	return &limits{rate: perSecond, streams: streams, forOne: max(1, streams/ofOne), callers: map[string]*rate.Limiter{},
		open: map[string]int{}}
}

// take counts a request of a caller, who is one of a list. It returns how long to wait where there were too many.
func (l *limits) take(caller string, now time.Time) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.callers[caller]
	if one == nil {
		one = rate.NewLimiter(rate.Limit(l.rate), max(1, int(math.Ceil(2*l.rate))))
		l.callers[caller] = one
	}
	r := one.ReserveN(now, 1)
	if wait = r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
		return wait, false
	}
	return 0, true
}

// stream counts one more stream of a caller until release is called; ok is false where there are too many.
func (l *limits) stream(caller string) (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.streams || l.open[caller] >= l.forOne {
		return nil, false
	}
	l.all++
	l.open[caller]++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all--
		if l.open[caller]--; l.open[caller] == 0 {
			delete(l.open, caller)
		}
	}), true
}

// boundedListener accepts no more connections than it has room for.
type boundedListener struct {
	net.Listener
	room chan struct{} // one for each connection that is open
	done chan struct{} // closed with the listener
	end  func()
}

func bounded(l net.Listener, most int) net.Listener {
	b := &boundedListener{Listener: l, room: make(chan struct{}, most), done: make(chan struct{})}
	b.end = sync.OnceFunc(func() { close(b.done) })
	return b
}

// Accept waits until there is room.
func (b *boundedListener) Accept() (net.Conn, error) {
	select {
	case b.room <- struct{}{}:
	case <-b.done:
		return nil, net.ErrClosed
	}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.room
		return nil, err
	}
	return &boundedConn{Conn: c, leave: sync.OnceFunc(func() { <-b.room })}, nil
}

// Close ends Accept, too.
func (b *boundedListener) Close() error {
	b.end()
	return b.Listener.Close()
}

type boundedConn struct {
	net.Conn
	leave func()
}

// Close makes room for the next connection.
func (c *boundedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// quiet takes what net/http says of clients that misbehave: nothing is to be done about it, and they could fill a log.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
