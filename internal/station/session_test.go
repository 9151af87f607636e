package station_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

const coder = "---\nname: coder\ndescription: Writes\nversion: 1\nmodel: scripted/coder\ntools: [read, write]\nharness:\n  enabled: true\nsandbox:\n  mode: host\n  network: true\n---\nYou write code.\n"

// coding answers the second and third input only where it is shown what was said and done before.
const coding = `turns:
  - when: {turn: 1, message: {contains: "create the file"}}
    calls: [{name: write, input: {path: calc.go, content: "package calc\n"}}]
  - when: {turn: 2, message: {contains: "create the file"}, results: {tool: write}}
    text: I created calc.go.
  - when: {turn: 1, message: {contains: "add a function"}, history: {contains: "I created calc.go."}}
    calls: [{name: write, input: {path: calc.go, content: "package calc\n\nfunc Add(a, b int) int { return a + b }\n"}}]
  - when: {turn: 2, message: {contains: "add a function"}}
    text: I added Add.
  - when: {turn: 1, message: {contains: "add tests"}, history: {contains: "I added Add."}, results: {tool: write}}
    calls: [{name: read, input: {path: calc.go}}]
  - when: {turn: 2, message: {contains: "add tests"}, results: {contains: "func Add"}}
    calls: [{name: write, input: {path: calc_test.go, content: "package calc\n"}}]
  - when: {turn: 3, message: {contains: "add tests"}}
    text: I added tests.
`

// day is one day of a station in a folder: it goes up, takes inputs and goes down.
func day(t *testing.T, dir string, alone bool, do func(c *client.Client)) {
	t.Helper()
	base, err := service.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	st, err := station.Up(within(t), station.Config{StoreDir: filepath.Join(dir, "store"), AgentsDir: filepath.Join(dir, "agents"), ScriptsDir: filepath.Join(dir, "scripts"),
		Sandbox: "host", LazySync: !alone, Alone: alone, Log: zerolog.Nop(), Base: base})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	c := operator.Local(st.Local(), "", nil)
	if !alone {
		if c, err = operator.On(st.Conn(), st.Name()); err != nil {
			t.Fatal(err)
		}
	}
	do(c)
}

func TestSessionDays(t *testing.T) {
	t.Parallel()
	for _, alone := range []bool{false, true} {
		t.Run(fmt.Sprintf("SESS-11 SESS-12 TEST-12d LOOP-11 three inputs build on each other although the station was down in between, without NATS %v", alone), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range map[string]string{"agents/coder.prompt": coder, "scripts/coder.yaml": coding} {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			level := 5
			input := func(c *client.Client, text, want string, settle bool) {
				t.Helper()
				id, err := c.Sessions().Send(within(t), "calc", events.Task{Agent: "coder", Task: text, Autonomy: &level})
				if err != nil {
					t.Fatal(err)
				}
				for item, err := range c.Watch(within(t), id, 0) {
					if err != nil {
						t.Fatal(err)
					}
					if r := item.State.Result; r != nil && (r.Output != want || !r.Success) {
						t.Fatalf("%q: %+v, want %q", text, r, want)
					}
				}
				if settle {
					if err := c.Sessions().Settled(within(t), "calc", id); err != nil {
						t.Fatal(err)
					}
				}
			}
			day(t, dir, alone, func(c *client.Client) {
				if _, err := c.Sessions().Start(within(t), "calc", events.Sequential, events.SessionSettings{Branch: "main"}); err != nil {
					t.Fatal(err)
				}
				input(c, "create the file", "I created calc.go.", false)
				input(c, "add a function", "I added Add.", true) // at once: no one waits for the lock of a run that has ended
			})
			day(t, dir, alone, func(c *client.Client) {
				input(c, "add tests", "I added tests.", true)
				e, err := c.Sessions().Get(within(t), "calc")
				if err != nil || e.Runs != 3 || e.Fence != 3 || e.Branch != "main" {
					t.Errorf("%+v, %v", e, err)
				}
			})
			day(t, dir, alone, func(c *client.Client) {
				talk, err := c.Sessions().History(within(t), "calc")
				if err != nil {
					t.Fatal(err)
				}
				var asked []string
				for _, m := range talk.Messages {
					if m.Role == events.RoleUser {
						asked = append(asked, m.Content)
					}
				}
				if got := strings.Join(asked, ", "); got != "create the file, add a function, add tests" {
					t.Errorf("%s", got)
				}
				b, err := os.ReadFile(filepath.Join(dir, "store", "workspace", "session", "calc", "calc.go"))
				if err != nil || !strings.Contains(string(b), "func Add") {
					t.Errorf("%q, %v", b, err)
				}
			})
		})
	}
}
