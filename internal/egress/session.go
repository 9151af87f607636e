package egress

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inspan/inspan/internal/egress/policy"
)

const (
	// fresh is how long one answer of Grant.Current holds.
	fresh = time.Second
	// doubt is how long open connections go on where Current cannot tell: less than the lease of a toolrunner, so no
	// one else can have begun the call meanwhile.
	doubt = 10 * time.Second
	// asking is how long Current may take.
	asking = 5 * time.Second
)

// Session is the way out of one call. It is safe for concurrent use.
type Session struct {
	proxy *Proxy
	grant Grant
	token string

	spent atomic.Int64 // bytes carried

	asked sync.Mutex
	sure  atomic.Pointer[time.Time] // when Current last said yes; written under asked

	held
	lines int // guarded by mu

	trust     *authority // nil where no credential fits
	transport *http.Transport
}

// Open opens a Session. Close must be called.
func (p *Proxy) Open(g Grant) (*Session, error) {
	d := &Session{proxy: p, grant: g, token: rand.Text(), held: held{cuts: map[uint64]func(){}}}
	var named []string
	for _, c := range p.cfg.Credentials {
		if _, err := g.Allow.Judge(c.target); err == nil && c.secure() {
			named = append(named, c.target.Name)
		}
	}
	if len(named) > 0 {
		var err error
		if d.trust, err = newAuthority(named); err != nil {
			return nil, fmt.Errorf("open egress: %w", err)
		}
	}
	d.transport = d.newTransport()
	p.mu.Lock()
	p.tokens[d.token] = d
	p.mu.Unlock()
	return d, nil
}

// Close revokes the grant: it cuts all connections at once and returns when nothing of the Session runs any more. It
// may be called again.
func (d *Session) Close() {
	d.shut()
	d.work.Wait()
	d.transport.CloseIdleConnections()
	if d.trust != nil {
		d.trust.remove()
	}
}

// shut cuts everything and lets nothing in any more.
func (d *Session) shut() {
	d.proxy.mu.Lock()
	delete(d.proxy.tokens, d.token)
	d.proxy.mu.Unlock()
	d.cut()
}

// current asks whether the call's fence is still current, unless that was answered a moment ago. patience is for how
// long an older yes holds where no one can tell.
func (d *Session) current(ctx context.Context, t policy.Target, patience time.Duration) error {
	if d.over() {
		return policy.Refuse(policy.Revoked, t, "the call has ended", "")
	}
	if d.grant.Current == nil || d.since() < fresh {
		return nil
	}
	d.asked.Lock()
	defer d.asked.Unlock()
	if d.since() < fresh {
		return nil
	}
	ctx, done := d.within(ctx, asking)
	defer done()
	begin := time.Now()
	err := d.grant.Current(ctx)
	switch {
	case err == nil:
		d.sure.Store(&begin) // it was true when it was asked, at the earliest
		return nil
	case errors.Is(err, ErrStale):
		d.shut()
		return policy.Refuse(policy.Revoked, t, "the call has ended, or another attempt of it has started", "")
	case d.since() < patience:
		return nil
	}
	return policy.Refuse(policy.Revoked, t, "it is unknown whether the call is still current",
		"retry when the station is reachable")
}

// since is how long ago Current last said yes, by whichever clock says more: one of them may stand still while a
// machine sleeps.
func (d *Session) since() time.Duration {
	at := d.sure.Load()
	if at == nil {
		return 1 << 62
	}
	now := time.Now()
	return max(now.Sub(*at), now.Round(0).Sub(at.Round(0)))
}

// allow judges a target under the current fence, without reaching for it.
func (d *Session) allow(ctx context.Context, t policy.Target) (policy.Rule, error) {
	if err := d.current(ctx, t, 0); err != nil {
		return policy.Rule{}, err
	}
	return d.grant.Allow.Judge(t)
}

// reach opens a connection to a target that is allowed. The error is a *policy.Refusal, already reported.
func (d *Session) reach(ctx context.Context, t policy.Target, via string) (*line, error) {
	begin := time.Now()
	rule, err := d.allow(ctx, t)
	if err == nil {
		var l *line
		if l, err = d.open(ctx, t); err == nil {
			l.reported = Attempt{Target: t, Via: via, Rule: rule.Text, Addr: l.reported.Addr}
			l.began = begin
			return l, nil
		}
	}
	d.refused(t, via, rule.Text, err)
	return nil, err
}

// refused reports an attempt that was refused.
func (d *Session) refused(t policy.Target, via, rule string, err error) {
	if d.grant.Report == nil {
		return
	}
	a := Attempt{Target: t, Via: via, Rule: rule, Code: policy.Unreachable, Reason: err.Error()}
	if r, ok := errors.AsType[*policy.Refusal](err); ok {
		a.Code, a.Reason = r.Code, r.Reason
	}
	d.grant.Report(a)
}

// open takes a place, resolves and dials.
func (d *Session) open(ctx context.Context, t policy.Target) (*line, error) {
	ctx, done := d.within(ctx, d.proxy.cfg.Limits.Dial)
	defer done()
	leave, err := d.enter(t)
	if err != nil {
		return nil, err
	}
	addrs := []netip.Addr{t.Addr}
	if !t.Addr.IsValid() {
		if addrs, err = d.proxy.cfg.Resolve(ctx, t.Name); err != nil {
			leave()
			return nil, policy.Refuse(policy.NoAddress, t, "the name could not be resolved", "check the spelling")
		}
	}
	if addrs, err = d.grant.Allow.Reach(t, addrs); err != nil {
		leave()
		return nil, err
	}
	const tries = 4
	for _, a := range addrs[:min(len(addrs), tries)] {
		if closed := d.proxy.cfg.Closed; closed != nil && closed(netip.AddrPortFrom(a, t.Port)) {
			leave()
			return nil, policy.Refuse(policy.NotAllowed, t, "the station listens there", "")
		}
		conn, err := d.proxy.cfg.Dial(ctx, netip.AddrPortFrom(a, t.Port))
		if err != nil {
			continue
		}
		l := &line{Conn: conn, egress: d, target: t, leave: leave, reported: Attempt{Addr: a}}
		l.touch()
		forget, ok := d.keep(func() { _ = conn.Close() })
		l.forget = forget
		if !ok {
			leave()
			return nil, policy.Refuse(policy.Revoked, t, "the call has ended", "")
		}
		return l, nil
	}
	leave()
	return nil, policy.Refuse(policy.Unreachable, t, "it is allowed, but does not respond", "")
}

// enter takes a place for one connection.
func (d *Session) enter(t policy.Target) (leave func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lines >= d.proxy.cfg.Limits.Connections {
		return nil, policy.Refuse(policy.Limit, t, fmt.Sprintf("the call has %d connections open", d.lines),
			"close some connections first")
	}
	select {
	case d.proxy.places <- struct{}{}:
	default:
		return nil, policy.Refuse(policy.Limit, t, "the toolrunner has reached its limit of open connections",
			"try again later")
	}
	d.lines++
	return sync.OnceFunc(func() {
		<-d.proxy.places
		d.mu.Lock()
		d.lines--
		d.mu.Unlock()
	}), nil
}
