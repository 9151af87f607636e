package backends_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/backends"
)

// fake is a backend whose probe answers what it is told.
type fake struct {
	sandbox.Backend
	mode   sandbox.Mode
	refuse error
}

func (f fake) Mode() sandbox.Mode { return f.mode }

func (f fake) Probe(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrUnavailable, ctx.Err())
	}
	return f.refuse
}

var missing = fmt.Errorf("%w: nothing is installed", sandbox.ErrUnavailable)

func set(t *testing.T, list ...sandbox.Backend) *backends.Set {
	t.Helper()
	s, err := backends.New(list...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPick(t *testing.T) {
	t.Parallel()
	works, broken := fake{mode: sandbox.Bwrap}, fake{mode: sandbox.Bwrap, refuse: missing}
	host := fake{mode: sandbox.Host}
	for name, c := range map[string]struct {
		set  []sandbox.Backend
		ask  sandbox.Mode
		want sandbox.Mode
		err  error
	}{
		"SBX-20 a named mode is taken":                     {[]sandbox.Backend{works, host}, sandbox.Bwrap, sandbox.Bwrap, nil},
		"SBX-20 a missing mode is never a weaker one":      {[]sandbox.Backend{broken, host}, sandbox.Bwrap, "", sandbox.ErrUnavailable},
		"SBX-10 auto takes bwrap where it works":           {[]sandbox.Backend{host, works}, sandbox.Auto, sandbox.Bwrap, nil},
		"SBX-10 auto takes host where bwrap does not work": {[]sandbox.Backend{host, broken}, sandbox.Auto, sandbox.Host, nil},
		"SBX-20 auto with nothing that works":              {[]sandbox.Backend{broken}, sandbox.Auto, "", sandbox.ErrUnavailable},
		"SBX-20 an unknown mode":                           {[]sandbox.Backend{works, host}, "docker", "", backends.ErrUnknown},
		"SBX-20 no mode":                                   {[]sandbox.Backend{works, host}, "", "", backends.ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := set(t, c.set...).Pick(t.Context(), c.ask)
			if !errors.Is(err, c.err) {
				t.Fatalf("got %v, want %v", err, c.err)
			}
			if c.err == nil && b.Mode() != c.want {
				t.Errorf("got %s, want %s", b.Mode(), c.want)
			}
		})
	}
	lock := fake{mode: sandbox.Landlock}
	for name, c := range map[string]struct {
		set  []sandbox.Backend
		ask  backends.Policy
		want sandbox.Mode
		err  error
	}{
		"SBX-10 auto takes landlock before host":                {[]sandbox.Backend{host, lock, broken}, backends.Policy{Mode: sandbox.Auto}, sandbox.Landlock, nil},
		"SBX-10 auto takes the configured backend":              {[]sandbox.Backend{works, lock, host}, backends.Policy{Mode: sandbox.Auto, Backend: sandbox.Landlock}, sandbox.Landlock, nil},
		"SBX-10 a configured backend that does not work is it":  {[]sandbox.Backend{broken, lock, host}, backends.Policy{Mode: sandbox.Auto, Backend: sandbox.Bwrap}, "", sandbox.ErrUnavailable},
		"SBX-10 auto never goes below the least isolation":      {[]sandbox.Backend{broken, host}, backends.Policy{Mode: sandbox.Auto, Min: sandbox.Landlock}, "", backends.ErrTooWeak},
		"SBX-10 a least isolation that is not known is not met": {[]sandbox.Backend{works, host}, backends.Policy{Mode: sandbox.Auto, Min: "bwarp"}, "", backends.ErrTooWeak},
		"SBX-10 auto takes what is just enough":                 {[]sandbox.Backend{broken, lock, host}, backends.Policy{Mode: sandbox.Auto, Min: sandbox.Landlock}, sandbox.Landlock, nil},
		"SBX-10 a named mode below the least isolation":         {[]sandbox.Backend{works, lock, host}, backends.Policy{Mode: sandbox.Landlock, Min: sandbox.Bwrap}, "", backends.ErrTooWeak},
		"SBX-10 the named mode that is the least isolation":     {[]sandbox.Backend{works, lock, host}, backends.Policy{Mode: sandbox.Bwrap, Min: sandbox.Bwrap}, sandbox.Bwrap, nil},
		"SBX-10 a configured backend below the least isolation": {[]sandbox.Backend{works, lock, host}, backends.Policy{Mode: sandbox.Auto, Backend: sandbox.Host, Min: sandbox.Landlock}, "", backends.ErrTooWeak},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := set(t, c.set...).Choose(t.Context(), c.ask)
			if !errors.Is(err, c.err) {
				t.Fatalf("got %v, want %v", err, c.err)
			}
			if c.err == nil && b.Mode() != c.want {
				t.Errorf("got %s, want %s", b.Mode(), c.want)
			}
		})
	}
	t.Run("SBX-20 an unknown mode is told which are known", func(t *testing.T) {
		t.Parallel()
		if _, err := set(t, works, host).Pick(t.Context(), "docker"); err == nil || !strings.Contains(err.Error(), "auto, bwrap, host") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("SBX-20 a probe that was cut short is no reason for a weaker mode", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if b, err := set(t, works, host).Pick(ctx, sandbox.Auto); err == nil {
			t.Errorf("got %s, want an error", b.Mode())
		}
	})
	t.Run("a mode given twice or reserved is refused", func(t *testing.T) {
		t.Parallel()
		for _, list := range [][]sandbox.Backend{{host, host}, {fake{mode: sandbox.Auto}}} {
			if _, err := backends.New(list...); err == nil {
				t.Errorf("got no error")
			}
		}
	})
	t.Run("SBX-10 a further backend is reached by name and never by auto", func(t *testing.T) {
		t.Parallel()
		s := set(t, broken, host).With(fake{mode: sandbox.WASM})
		if b, err := s.Pick(t.Context(), sandbox.WASM); err != nil || b.Mode() != sandbox.WASM {
			t.Errorf("by name: got %v, %v", b, err)
		}
		if b, err := s.Pick(t.Context(), sandbox.Auto); err != nil || b.Mode() != sandbox.Host {
			t.Errorf("auto: got %v, %v", b, err)
		}
	})
	t.Run("SBX-3 the local set knows host, landlock and bwrap", func(t *testing.T) {
		t.Parallel()
		s := backends.Local(t.TempDir())
		if got := strings.Join(s.Modes(), " "); got != "auto bwrap host landlock" {
			t.Errorf("got %s", got)
		}
		if b, err := s.Pick(t.Context(), sandbox.Host); err != nil || b.Mode() != sandbox.Host {
			t.Errorf("got %v, %v", b, err)
		}
	})
}
