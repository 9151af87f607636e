package sandboxtest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
)

// Swap checks that what is closed in a directory stays closed where the directory is moved, and that a link which is
// put in the place of a named path of the workspace, after it was looked at, opens nothing: neither between Open and a
// command, nor while both go on.
func Swap(t *testing.T, b sandbox.Backend) {
	Need(t, b)
	t.Run("SBX-14 a directory that is moved with what is closed in it", func(t *testing.T) {
		t.Parallel()
		pinned(t, b)
	})
	t.Run("SBX-14 a link put in the place of a named path after Open shows nothing outside", func(t *testing.T) {
		t.Parallel()
		s := newSwap(t, b)
		sb, err := s.open(s.outside) // which must not become writable by it
		must(t, err)
		s.flip(t)
		if _, err := s.attack(t, sb); err != nil {
			t.Logf("not started: %v", err)
		}
		s.untouched(t)
	})
	t.Run("SBX-14 a link that comes and goes while sandboxes open shows nothing outside", func(t *testing.T) {
		t.Parallel()
		s := newSwap(t, b)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ctx.Err() == nil {
				s.flip(t)
			}
		}()
		defer func() {
			stop()
			<-done
			s.untouched(t)
		}()
		ran := 0
		for round := 0; round < 1000 && (round < 30 || ran == 0); round++ {
			sb, err := s.open()
			if err != nil {
				continue // refused, as it should be where a link was there
			}
			read, err := s.attack(t, sb)
			if strings.Contains(read, secretText) {
				t.Fatal("what the link leads to can be read")
			}
			if err == nil {
				ran++
			}
		}
		if ran == 0 {
			t.Error("no command ran: neither did the race")
		}
	})
}

// swap is a workspace whose directory "named" is, in turns, real and a link to a directory outside.
type swap struct {
	workdir
	b        sandbox.Backend
	now, aka string
}

func newSwap(t *testing.T, b sandbox.Backend) *swap {
	t.Helper()
	base := t.TempDir()
	s := &swap{b: b, workdir: workdir{workspace: filepath.Join(base, "ws"), outside: filepath.Join(base, "outside")}}
	s.secret = filepath.Join(s.outside, "secret")
	s.now, s.aka = filepath.Join(s.workspace, "named"), filepath.Join(s.workspace, "other")
	must(t, os.MkdirAll(filepath.Join(s.now, "in"), 0o755))
	must(t, os.Mkdir(s.outside, 0o755))
	must(t, os.WriteFile(s.secret, []byte(secretText), 0o644))
	must(t, os.Symlink(s.outside, s.aka))
	return s
}

// flip exchanges the directory and the link.
func (s *swap) flip(t *testing.T) {
	if err := exchange(s.now, s.aka); err != nil {
		t.Errorf("swap: %v", err)
	}
}

func (s *swap) open(readable ...string) (sandbox.Sandbox, error) {
	return s.b.Open(context.Background(), sandbox.Config{ID: "swap", Workspace: s.workspace, Network: true,
		Writable: []string{s.now}, ReadOnly: readable})
}

// attack reads and writes what a mounted link would show, and returns what it read. A command that does not start shows
// nothing either.
func (s *swap) attack(t *testing.T, sb sandbox.Sandbox) (string, error) {
	t.Helper()
	var out safe
	_, err := sb.Exec(within(t), sandbox.Cmd{Stdout: &out,
		Args: []string{"sh", "-c", "for d in named other; do cat $d/secret; echo x > $d/secret; echo x > $d/more; rm -f $d/more; done"}})
	must(t, sb.Destroy(context.Background()))
	return out.String(), err
}
