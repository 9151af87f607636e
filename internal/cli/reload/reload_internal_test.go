package reload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
)

// registry registers in memory, and fails while err is set.
type registry struct {
	service.Agents
	err error
}

func (r *registry) RegisterAgents(ctx context.Context, defs map[string]events.Agent, removed []string) (done []service.Registration, err error) {
	for _, name := range slices.Sorted(maps.Keys(defs)) {
		one, err := r.Put(ctx, defs[name])
		if err = errors.Join(err, r.err); err != nil {
			return nil, err
		}
		if one.State != service.AgentUnchanged {
			done = append(done, one)
		}
	}
	for _, name := range removed {
		if err := r.Remove(ctx, name); err != nil {
			return nil, err
		}
		done = append(done, service.Registration{Agent: name, State: service.AgentRemoved})
	}
	return done, nil
}

// bed is a watched folder.
type bed struct {
	*testing.T
	*watcher
	dir      string
	registry *registry
	lines    []string
}

func newBed(t *testing.T) *bed {
	t.Helper()
	st, err := mem.New("s", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{T: t, dir: t.TempDir(), registry: &registry{Agents: service.Agents{KV: st.KV("config")}}}
	b.put("x.prompt", prompt("one"))
	if _, _, err := b.registry.Register(t.Context(), b.dir); err != nil {
		t.Fatal(err)
	}
	b.watcher = newWatcher(watched{station: b.registry, path: b.dir, used: b.dir, say: func(line string) { b.lines = append(b.lines, line) }})
	b.says()
	return b
}

func prompt(text string) string { return "---\nmodel: scripted/x\n---\n" + text + "\n" }

func (b *bed) put(name, text string) {
	b.Helper()
	at := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
}

// says looks until all that changed was acted upon, and wants a line with each text, in order.
func (b *bed) says(want ...string) {
	b.Helper()
	b.lines = nil
	for range 3 {
		b.look(b.Context())
	}
	if len(b.lines) != len(want) {
		b.Fatalf("got %q, want %q", b.lines, want)
	}
	for i, w := range want {
		if !strings.Contains(b.lines[i], w) {
			b.Errorf("got %q, want %q", b.lines[i], w)
		}
	}
}

func (b *bed) prompt(name string) string {
	b.Helper()
	a, err := b.registry.Agent(b.Context(), name)
	if err != nil && !errors.Is(err, kernel.ErrNotFound) {
		b.Fatal(err)
	}
	return strings.TrimSpace(a.Prompt)
}

func TestWatcher(t *testing.T) {
	t.Parallel()
	t.Run("ID-11 a file that is being written is left alone until it stands still", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		for i := range 3 {
			b.put("x.prompt", prompt(strings.Repeat("half ", i+1)))
			b.look(t.Context())
		}
		if got := b.prompt("x"); got != "one" {
			t.Fatalf("it is %q", got)
		}
		b.says("x changed (prompt) and is registered")
		if got := b.prompt("x"); got != "half half half" {
			t.Errorf("it is %q", got)
		}
		b.says()
	})
	t.Run("ID-11 a station that cannot be written is tried again, and that is reported once", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.registry.err = errors.New("away")
		b.put("x.prompt", prompt("two!"))
		b.says("are not registered: away")
		b.says()
		b.registry.err = nil
		b.put("y.prompt", prompt("three"))
		b.says("y.prompt is new")
	})
	t.Run("ID-11 what is wrong with a role keeps its agents, and each other content is reported", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.put("p/r/y.prompt", prompt("two"))
		b.says("p/r/y.prompt is new: y is registered")
		b.put("p/r/role.yaml", "version: 1\nwrong: 1\n")
		b.says("its agents stay as they were")
		b.put("p/r/role.yaml", "version: 1\nwrong: 12\n")
		b.says("its agents stay as they were")
		if got := b.prompt("y"); got != "two" {
			t.Errorf("it is %q", got)
		}
		if err := os.RemoveAll(filepath.Join(b.dir, "p")); err != nil {
			t.Fatal(err)
		}
		b.says("y is no longer registered")
		if got := b.prompt("y"); got != "" {
			t.Errorf("it is %q", got)
		}
	})
	t.Run("ID-11 a folder that is gone keeps all that is registered", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		if err := os.RemoveAll(b.dir); err != nil {
			t.Fatal(err)
		}
		b.says("those that are registered stay")
		b.says()
		if got := b.prompt("x"); got != "one" {
			t.Errorf("it is %q", got)
		}
	})
	t.Run("SAFE-6 names and texts of strangers cannot control the terminal, and a folder without end is not watched", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.put("\x1b[2J.prompt", "\x1b[31m")
		b.says("Agents: ")
		if strings.Contains(b.lines[0], "\x1b") {
			t.Errorf("%q", b.lines)
		}
		for i := range maxFiles {
			b.put(fmt.Sprint("memory/", i), "")
		}
		b.says("more than 4096 files")
		b.says()
	})
}
