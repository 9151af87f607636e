package bwrap

import (
	"slices"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
)

var _ sandbox.Doored = (*Backend)(nil)

// through leads a process out by the sandbox's door, if it has one. shut is called when it has ended, or did not start.
func (b *instance) through(p *local.Process, command []string) (shut func() error, err error) {
	egress := b.Config().Egress
	if egress == nil {
		return func() error { return nil }, nil
	}
	pass, err := egress.Pass(command, firstExtra+len(p.Extra))
	if err != nil {
		return nil, err
	}
	p.Args = append(slices.Clone(p.Args[:len(p.Args)-len(command)]), pass.Args...)
	p.Extra = append(slices.Clone(p.Extra), pass.Files...)
	started := p.Started
	p.Started = func(pid int) {
		started(pid)
		pass.Started()
	}
	return pass.Close, nil
}
