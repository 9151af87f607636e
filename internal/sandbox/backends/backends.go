// Package backends knows the backends by name and picks one.
//
// Promises: a mode that is asked for by name is either opened or refused with what is missing; only "auto" chooses,
// and what it chose is told by the backend's Mode, so that it can be recorded (SBX-20).
package backends

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/host"
	"github.com/inspan/inspan/internal/sandbox/landlock"
)

// ErrUnknown means that no backend has that name.
var ErrUnknown = errors.New("unknown sandbox mode")

// Set is a fixed set of backends by mode. It is safe for concurrent use.
type Set struct{ backends []sandbox.Backend }

// New makes a set of backends of different modes.
func New(list ...sandbox.Backend) (*Set, error) {
	seen := map[sandbox.Mode]bool{sandbox.Auto: true}
	for _, b := range list {
		if seen[b.Mode()] {
			return nil, fmt.Errorf("sandbox mode %q is given twice or reserved", b.Mode())
		}
		seen[b.Mode()] = true
	}
	return &Set{slices.Clone(list)}, nil
}

// Local returns the set of the backends that need no service: bwrap, landlock and host. base is where private
// directories are made; empty means the system's place for temporary files.
func Local(base string) *Set {
	return &Set{[]sandbox.Backend{bwrap.New("", base), landlock.New(nil, base), host.New(base)}}
}

// With returns a set with further backends, which auto never comes to by itself.
func (s *Set) With(more ...sandbox.Backend) *Set { return &Set{slices.Concat(s.backends, more)} }

// Backends returns them all, whether they work or not.
func (s *Set) Backends() []sandbox.Backend { return slices.Clone(s.backends) }

// Modes returns the names that Pick knows, in order.
func (s *Set) Modes() []string {
	names := []string{string(sandbox.Auto)}
	for _, b := range s.backends {
		names = append(names, string(b.Mode()))
	}
	slices.Sort(names)
	return names
}

// Policy says what Choose may choose.
type Policy struct {
	// Mode that is asked for; Auto leaves it to Choose.
	Mode sandbox.Mode
	// Backend is what Auto means; empty for the strongest local one that works.
	Backend sandbox.Mode
	// Min is the weakest mode that may be chosen; empty for any.
	Min sandbox.Mode
}

// ErrTooWeak means that a mode is weaker than the least isolation that is wanted.
var ErrTooWeak = fmt.Errorf("%w: it isolates less than required", sandbox.ErrUnavailable)

// Pick is Choose without a least isolation.
func (s *Set) Pick(ctx context.Context, mode sandbox.Mode) (sandbox.Backend, error) {
	return s.Choose(ctx, Policy{Mode: mode})
}

// Choose returns a backend after its probe passed. Auto means Policy.Backend where one is named, and nothing else where
// that does not work; otherwise the first of bwrap, landlock and host that works and is not below Policy.Min. The error
// wraps ErrUnknown, ErrTooWeak, or sandbox.ErrUnavailable with what is missing.
func (s *Set) Choose(ctx context.Context, p Policy) (sandbox.Backend, error) {
	if p.Mode == sandbox.Auto && p.Backend != "" && p.Backend != sandbox.Auto {
		p.Mode = p.Backend
	}
	if p.Mode != sandbox.Auto {
		if err := Enough(p.Mode, p.Min); err != nil {
			return nil, err
		}
		return s.named(ctx, p.Mode)
	}
	var refusals []error
	for _, m := range []sandbox.Mode{sandbox.Bwrap, sandbox.Landlock, sandbox.Host} {
		b, err := s.named(ctx, m)
		if err == nil {
			err = Enough(m, p.Min)
		}
		if err == nil {
			return b, nil
		}
		if ctx.Err() != nil {
			// A probe that was cut short says nothing about the machine: it is no reason for a weaker mode.
			return nil, err
		}
		refusals = append(refusals, err)
	}
	return nil, fmt.Errorf("sandbox mode auto: %w", errors.Join(refusals...))
}

// Enough returns ErrTooWeak where a mode isolates less than least; any is enough for an empty
// least, none for one that is not known here.
func Enough(mode, least sandbox.Mode) error {
	known := least == sandbox.Host || least.Strength() > 0
	if least == "" || known && mode.Strength() >= least.Strength() {
		return nil
	}
	return fmt.Errorf("sandbox mode %s: %w: at least %s", mode, ErrTooWeak, least)
}

func (s *Set) named(ctx context.Context, mode sandbox.Mode) (sandbox.Backend, error) {
	for _, b := range s.backends {
		if b.Mode() != mode {
			continue
		}
		if err := b.Probe(ctx); err != nil {
			return nil, fmt.Errorf("sandbox mode %s: %w", mode, err)
		}
		return b, nil
	}
	return nil, fmt.Errorf("%w %q: known are %s", ErrUnknown, mode, strings.Join(s.Modes(), ", "))
}
