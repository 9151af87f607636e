package security

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/program"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/all"
	"github.com/inspan/inspan/pkg/events"
)

// wholeRun carries out a run with services that are connected to different servers, each with its own rights.
func wholeRun(t *testing.T, g *jettest.Group) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"agents/a.prompt": "---\nname: a\nmodel: scripted/a\ntools: [bash]\nsandbox:\n  mode: host\n---\nGo.\n",
		"scripts/a.yaml": "turns:\n  - when: {turn: 1}\n    calls:\n      - {name: bash, input: {command: echo}}\n  - when: {turn: 2}\n    text: done\n"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	cfg := service.Config{Base: service.Base{Station: "s1", Drain: time.Second, NATS: service.NATS{AcceptLazy: true}, Store: service.Store{Replicas: 3}}, Sandboxes: service.Sandboxes{Sandbox: "host", SandboxReaches: true}, Workspaces: service.Workspaces{Workspace: filepath.Join(dir, "work")}, Models: service.Models{Scripts: filepath.Join(dir, "scripts")}}
	as := func(user string, server int) service.Config {
		c := cfg
		c.NATSUser, c.NATSPassword, c.NATSURL = user, secret.New(password(user)), g.Server(server).URL()
		return c
	}
	setup := as("setup", 2)
	setup.Agents = filepath.Join(dir, "agents")
	if _, err := program.Setup(within(t), setup, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	defer func() { cancel(); done.Wait() }()
	for i, role := range events.Services() {
		done.Go(func() {
			cfg := as(string(role), i%3)
			if err := program.Serve(ctx, all.Program(role, &cfg), zerolog.Nop()); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", role, err)
			}
		})
	}
	b := &bed{t: t, url: g.Server(1).URL()}
	c, err := operator.On(b.conn("operator"), "s1")
	if err != nil {
		t.Fatal(err)
	}
	id, err := c.Start(within(t), events.Task{Agent: "a", Task: "go"})
	if err != nil {
		t.Fatal(err)
	}
	if s := ended(t, c, id); s.Status != events.Completed {
		t.Errorf("the run is %s", s.Status)
	}
}
