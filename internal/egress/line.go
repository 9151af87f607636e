package egress

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inspan/inspan/internal/egress/policy"
)

// line is a connection to a host. What passes is counted, ended when it is silent for too long, and sent only under the
// current fence.
type line struct {
	net.Conn
	egress   *Session
	target   policy.Target
	reported Attempt
	began    time.Time
	leave    func()
	forget   func()

	last       atomic.Int64 // of the last byte in either direction, in nanoseconds of the clock
	sent, rcvd atomic.Int64
	once       sync.Once
}

func (l *line) touch() { l.last.Store(time.Now().UnixNano()) }

// Read implements net.Conn. A line that is silent is ended only if nothing was sent meanwhile either.
func (l *line) Read(p []byte) (int, error) {
	idle := l.egress.proxy.cfg.Limits.Idle
	for {
		_ = l.Conn.SetReadDeadline(time.Now().Add(idle))
		n, err := l.Conn.Read(p)
		if n > 0 {
			l.touch()
			l.rcvd.Add(int64(n))
			if spent := l.spend(n); spent != nil {
				return 0, spent
			}
			return n, err
		}
		if err != nil && errors.Is(err, os.ErrDeadlineExceeded) && time.Since(time.Unix(0, l.last.Load())) < idle {
			continue
		}
		return n, err
	}
}

// Write implements net.Conn.
func (l *line) Write(p []byte) (int, error) {
	if err := l.egress.current(context.Background(), l.target, doubt); err != nil {
		return 0, err
	}
	if err := l.spend(len(p)); err != nil {
		return 0, err
	}
	_ = l.Conn.SetWriteDeadline(time.Now().Add(l.egress.proxy.cfg.Limits.Idle))
	n, err := l.Conn.Write(p)
	l.touch()
	l.sent.Add(int64(n))
	return n, err
}

func (l *line) spend(n int) error {
	if limit := l.egress.proxy.cfg.Limits.Bytes; l.egress.spent.Add(int64(n)) > limit {
		return policy.Refuse(policy.Limit, l.target, "the call has reached its limit of bytes", "")
	}
	return nil
}

// CloseWrite tells the host that nothing more is coming.
func (l *line) CloseWrite() error {
	if half, ok := l.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return l.Close()
}

// Close implements net.Conn and reports the attempt.
func (l *line) Close() error { return l.end(nil) }

// end closes the line; why is set where what it carried was refused in the end.
func (l *line) end(why *policy.Refusal) error {
	err := net.ErrClosed
	l.once.Do(func() {
		err = l.Conn.Close()
		l.leave()
		l.forget()
		if l.egress.grant.Report == nil {
			return
		}
		a := l.reported
		a.Sent, a.Received, a.Took = l.sent.Load(), l.rcvd.Load(), time.Since(l.began)
		if why != nil {
			a.Code, a.Reason = why.Code, why.Reason
		}
		l.egress.grant.Report(a)
	})
	return err
}
