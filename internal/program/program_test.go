package program_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/program"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/executor"
	"github.com/inspan/inspan/internal/service/gatekeeper"
	"github.com/inspan/inspan/internal/service/persister"
	"github.com/inspan/inspan/internal/service/planner"
	"github.com/inspan/inspan/internal/service/toolrunner"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// programs are those of cmd.
func programs() []service.Program {
	return []service.Program{planner.Program(), gatekeeper.Program(), executor.Program(), toolrunner.Program(), persister.Program()}
}

const (
	agent  = "---\nname: clerk\nmodel: scripted/clerk\ntools: [write, bash]\nsandbox: {mode: host, network: true}\n---\nDo the task.\n"
	script = "turns:\n  - when: {turn: 1}\n    calls:\n      - {name: write, input: {path: a.txt, content: written}}\n" +
		"      - {name: write, input: {file: a.txt}}\n      - {name: bash, input: {command: cat a.txt}}\n  - when: {turn: 2}\n    text: done\n"
)

// TestPrograms runs the five programs of cmd, each with its own settings from the environment and its own user.
func TestPrograms(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"agents/clerk.prompt": agent, "scripts/clerk.yaml": script} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	s := jettest.Server(t, func(cfg *natsserver.Config) {
		cfg.Port, cfg.MonitorPort = -1, -1
		cfg.Accounts = topology.Accounts("s1", []topology.User{topology.Outsider("s1", "guest", "", topology.MayDispatch, topology.MayWatch)},
			func(user string) string { return fmt.Sprintf("%q", "pw-"+user) }, topology.Setup("s1"))
	})
	for name, value := range map[string]string{"INSPAN_CONFIG": "none", "INSPAN_STATION": "s1", "INSPAN_NATS_URL": s.URL(), "INSPAN_NATS_MONITOR": s.MonitorURL(), "INSPAN_HTTP": "",
		"INSPAN_DRAIN": "2s", "INSPAN_SANDBOX": "host", "INSPAN_SANDBOX_REACHES_STATION": "true", "INSPAN_WORKSPACE": filepath.Join(dir, "work"), "INSPAN_SCRIPTS": filepath.Join(dir, "scripts")} {
		t.Setenv(name, value)
	}
	setup, err := service.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	setup.Agents, setup.NATSUser, setup.NATSPassword = filepath.Join(dir, "agents"), topology.SetupUser, secret.New("pw-"+topology.SetupUser)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if _, err := program.Setup(ctx, setup, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	defer func() { stop(); done.Wait() }()
	for _, p := range programs() {
		if err := (service.Layers{}).Load(p.Config); err != nil {
			t.Fatal(err)
		}
		p.Base.NATSUser, p.Base.NATSPassword = string(p.Role), secret.New("pw-"+string(p.Role))
		done.Go(func() {
			if err := program.Serve(serving, p, zerolog.Nop()); err != nil && serving.Err() == nil {
				t.Errorf("%s: %v", p.Role, err)
			}
		})
	}
	t.Run("DEPL-1 five programs, each with its own settings and rights, carry out a run with calls of tools", func(t *testing.T) {
		c, err := client.Connect(ctx, client.Config{URL: strings.Replace(s.URL(), "nats://", "nats://guest:pw-guest@", 1), Station: "s1"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		id, err := c.Start(ctx, events.Task{Agent: "clerk", Task: "Write it."})
		if err != nil {
			t.Fatal(err)
		}
		var last run.State
		kinds := map[events.Kind]int{}
		for item, err := range c.Watch(ctx, id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			last = item.State
			kinds[item.Payload.Kind()]++
		}
		if last.Status != events.Completed || last.Result.Output != "done" {
			t.Fatalf("got %s, %+v", last.Status, last.Result)
		}
		// The gatekeeper knows the schema of a tool that it does not link: the second call has an argument that there
		// is not.
		if kinds[events.CallFinished] != 2 || kinds[events.CallRefused] != 1 {
			t.Errorf("got %v, want two calls finished and one refused", kinds)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "work", "run", id, "a.txt")); err != nil || string(b) != "written" {
			t.Errorf("got %q, %v", b, err)
		}
	})
}

func TestOwnSettings(t *testing.T) {
	t.Setenv("INSPAN_GATE_APPROVERS", "-1")
	t.Setenv("INSPAN_OPENAI_API_KEY", "canary-model-key")
	t.Setenv("INSPAN_SANDBOX_SECRETS", "TOKEN=canary-for-commands")
	for _, p := range programs() {
		err := (service.Layers{}).Load(p.Config)
		t.Run("DEPL-1 "+string(p.Role)+" is kept from starting by its own settings alone", func(t *testing.T) {
			if (p.Role == events.Gatekeeper) != (err != nil) || err != nil && !strings.Contains(err.Error(), "INSPAN_GATE_APPROVERS") {
				t.Errorf("got %v", err)
			}
		})
		t.Run("SAFE-11 "+string(p.Role)+" masks the secrets of all, as far as it is given them", func(t *testing.T) {
			masked, err := service.Secrets(p.Config)
			if err != nil {
				t.Fatal(err)
			}
			if text := secret.Mask(masked...)("a canary-model-key b canary-for-commands"); strings.Contains(text, "canary") {
				t.Errorf("got %s", text)
			}
		})
	}
}
