package bwrap

import (
	"errors"
	"fmt"
	"slices"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/broker"
	"github.com/inspan/inspan/internal/sandbox/launch"
	"github.com/inspan/inspan/internal/sandbox/local"
)

// asked has the connections of a process made by the service, where its network is the machine's and the station's
// listeners are closed. shut is called when it has ended, or did not start; its error says why the command could not
// begin.
func (b *instance) asked(p *local.Process, command []string) (shut func() error, err error) {
	if cfg := b.Config(); !cfg.Network || cfg.Closed == nil {
		return func() error { return nil }, nil
	}
	hand, args, err := launch.PrepareConnect(command, firstExtra+len(p.Extra))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
	}
	p.Args = append(slices.Clone(p.Args[:len(p.Args)-len(command)]), args...)
	p.Extra = append(slices.Clone(p.Extra), hand.Files...)
	var answers *broker.Broker
	failed := errors.New("the launcher inside the sandbox did not send its listener")
	started, after := p.Started, p.After
	p.Started = func(pid int) {
		started(pid)
		reason := hand.Started(func(listener int) {
			answers, failed = broker.Start(listener, broker.Rules{Closed: broker.OwnOr(b.Config().Closed)})
		})
		if reason != "" {
			failed = errors.New(reason)
		}
	}
	p.After = func() {
		if answers != nil {
			answers.Close()
		}
		after()
	}
	return func() error { hand.Close(); return failed }, nil
}
