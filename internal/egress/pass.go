package egress

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/inspan/inspan/internal/egress/inside"
	"github.com/inspan/inspan/internal/sandbox"
)

var _ sandbox.Egress = (*Session)(nil)

// Pass implements sandbox.Egress: the command's own loopback gets a port behind which this Door is.
func (d *Session) Pass(command []string, fd int) (sandbox.EgressSession, error) {
	hand, args, files, err := inside.Prepare(command, fd)
	if err != nil {
		return sandbox.EgressSession{}, fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
	}
	p := &flow{egress: d, hand: hand}
	return sandbox.EgressSession{Args: args, Files: files, Started: p.started, Close: p.close}, nil
}

type flow struct {
	egress *Session
	hand   *inside.Hand
	work   sync.WaitGroup
	failed error // how the work ended, written by it
	mu     sync.Mutex
	shut   func() error // closes the listener, guarded by mu
	over   bool         // guarded by mu
}

func (p *flow) started() {
	p.hand.Started()
	p.work.Go(func() { p.failed = p.serve() })
}

// serve takes the listener and answers its clients until the command has ended.
func (p *flow) serve() error {
	l, err := p.hand.Take()
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.shut = l.Close
	over := p.over
	p.mu.Unlock()
	if over {
		_ = l.Close()
	}
	p.work.Go(func() { _ = p.egress.Serve(l) }) // it ends with the listener
	if reason := p.hand.Reason(); reason != "" {
		return errors.New(reason)
	}
	return nil
}

// close is called when the command has ended. The error says why it could not begin.
func (p *flow) close() error {
	p.mu.Lock()
	p.over = true
	if p.shut != nil {
		_ = p.shut()
	}
	p.mu.Unlock()
	p.hand.Ended()
	p.work.Wait()
	return errors.Join(p.failed, p.hand.Close())
}

// Env is what tells commands of the proxy. Names are in both spellings, since programs differ in which they read.
// ALL_PROXY is the HTTP proxy too: programs that know no SOCKS fail where it names one.
func (d *Session) Env() []string {
	at := fmt.Sprintf("http://127.0.0.1:%d", inside.Port)
	var env []string
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		env = append(env, name+"="+at, strings.ToLower(name)+"="+at)
	}
	env = append(env, "NO_PROXY=localhost,127.0.0.1,::1", "no_proxy=localhost,127.0.0.1,::1")
	if d.trust == nil {
		return env
	}
	for _, name := range []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
		"GIT_SSL_CAINFO", "AWS_CA_BUNDLE", "PIP_CERT", "CARGO_HTTP_CAINFO", "DENO_CERT"} {
		env = append(env, name+"="+d.trust.bundle())
	}
	return env
}

// Shown are the directories that commands must be able to read: certificates, where a host has a credential.
func (d *Session) Shown() []string {
	if d.trust == nil {
		return nil
	}
	return []string{d.trust.dir}
}
