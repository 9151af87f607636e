package station_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

func TestHookUser(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"agents/a.prompt": "---\nmodel: scripted/a\ntools: [glob]\nsandbox: {mode: host, network: true}\n---\nDo it.\n",
		"scripts/a.yaml":  "turns:\n  - when: {turn: 1}\n    calls:\n      - {name: glob, input: {pattern: \"*\"}}\n  - when: {turn: 2}\n    text: Done.\n",
		"policy.yaml": "version: 1\nhooks:\n  - {id: start, on: run_start, subject: house}\n  - {id: turn, on: turn, subject: house}\n" +
			"  - {id: pre, on: pre_tool, subject: house}\n  - {id: post, on: post_tool, subject: house}\n  - {id: stop, on: run_stop, subject: house}\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	base, err := service.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	base.SandboxReaches = true // a sandbox is not what is tested
	base.Policy, base.HookPassword = filepath.Join(dir, "policy.yaml"), secret.New("the password of hooks")
	st, err := station.Up(within(t), station.Config{Listen: "127.0.0.1:0", StoreDir: filepath.Join(dir, "store"), AgentsDir: filepath.Join(dir, "agents"),
		ScriptsDir: filepath.Join(dir, "scripts"), Sandbox: "host", LazySync: true, Log: zerolog.Nop(), Base: base})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c, err := client.Connect(within(t), client.Config{URL: st.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	end := func(t *testing.T, id string) events.Result {
		t.Helper()
		five := 5
		run, err := c.Start(within(t), events.Task{ID: id, Agent: "a", Task: "go", Autonomy: &five})
		if err != nil {
			t.Fatal(err)
		}
		for item, err := range c.Watch(within(t), run, 0) {
			if err != nil {
				t.Fatal(err)
			}
			switch p := item.Payload.(type) {
			case *events.RunCompletedData:
				return p.Result
			case *events.RunFailedData:
				return p.Result
			}
		}
		t.Fatal("the run has no end")
		return events.Result{}
	}
	t.Run("GUARD-2 where no one answers the station's hooks no run begins", func(t *testing.T) {
		if r := end(t, "alone"); r.FinishReason != events.FinishHook || !strings.Contains(r.Error, "no subscriber") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("GUARD-9 SAFE-6 a guest of the station can neither hear the questions nor answer them", func(t *testing.T) {
		let := plain(t, st.URL())
		for subject, verb := range map[string]string{"station.default.hook.house": "hear", "station.default.hook.*": "hear", "station.default.hooked.>": "hear",
			"station.default.hooked.gatekeeper.x": "say", "station.default.hook.audit": "say"} {
			if let(verb, subject) {
				t.Errorf("it may %s %s", verb, subject)
			}
		}
	})
	t.Run("GUARD-1 the user hook answers the services, each with its own rights, at every point", func(t *testing.T) {
		conn, err := jet.Connect(within(t), jet.Config{URL: st.URL(), User: "hook", Password: base.HookPassword})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		mine, err := conn.Station("default")
		if err != nil {
			t.Fatal(err)
		}
		asked := make(chan []byte, 16) // more than are asked
		stop, err := mine.AnswerHook("house", func(q []byte) []byte {
			asked <- q
			return []byte(`{"answer":"continue"}`)
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = stop() })
		if r := end(t, "answered"); !r.Success || len(asked) != 6 || len(r.Hooks) != 1 {
			t.Errorf("%d questions: %+v", len(asked), r)
		}
	})
}
