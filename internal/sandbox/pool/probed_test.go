package pool

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/events"
)

// unsure is a backend whose probe fails while refuse is set.
type unsure struct {
	asked
	probes *int
	refuse *error
}

func (u unsure) Probe(context.Context) error {
	*u.probes++
	return *u.refuse
}

func TestUnprobed(t *testing.T) {
	t.Parallel()
	t.Run("SBX-20 a backend of another mode is probed before its first sandbox, and opens none until that passed", func(t *testing.T) {
		t.Parallel()
		var opened sandbox.Config
		probes, refuse := 0, error(sandbox.ErrUnavailable)
		b := func(mode sandbox.Mode) sandbox.Backend {
			return unsure{asked{mode: mode, cfg: &opened}, &probes, &refuse}
		}
		o, err := NewOpener(Config{Root: t.TempDir(), Default: sandbox.Host, Unprobed: []sandbox.Mode{sandbox.Landlock},
			Backends: map[sandbox.Mode]sandbox.Backend{sandbox.Host: b(sandbox.Host), sandbox.Landlock: b(sandbox.Landlock)}})
		if err != nil || probes != 0 {
			t.Fatalf("got %v after %d probes", err, probes)
		}
		open := func(mode sandbox.Mode, wantProbes int, wantOpened bool) {
			t.Helper()
			opened = sandbox.Config{}
			_, err := o.WithEgress(nil).OpenAs(t.Context(), "x", "ws", events.Sandbox{Mode: string(mode)})
			if (opened.ID == "x") != wantOpened || probes != wantProbes ||
				!wantOpened && (!errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), string(mode))) {
				t.Errorf("%s: opened %t after %d probes, %v; want %t after %d", mode, opened.ID == "x", probes, err, wantOpened, wantProbes)
			}
		}
		open(sandbox.Host, 0, true)
		open(sandbox.Landlock, 1, false)
		open(sandbox.Landlock, 2, false)
		refuse = nil
		open(sandbox.Landlock, 3, true)
		open(sandbox.Landlock, 3, true)
	})
}
