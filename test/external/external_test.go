package external

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/station"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/pkg/tool/tooltest"
)

// The agent's model is scripted: it writes a file, shouts it, and says that it is done.
const (
	agent  = "---\nname: herald\ndescription: Announces things\nmodel: scripted/herald\ntools: [write, shout]\nsandbox: {mode: host, network: true}\n---\nDo the task.\n"
	script = `turns:
  - when: {turn: 1}
    calls: [{id: a, name: write, input: {path: news.txt, content: "hear ye"}}]
  - when: {turn: 2}
    calls: [{id: b, name: shout, input: {path: news.txt}}]
  - when: {turn: 3}
    text: It is announced.
`
	// sly has the tool and a guard that denies it.
	sly = "---\nname: sly\ndescription: May not shout\nmodel: scripted/herald\ntools: [write, shout]\nsandbox: {mode: host, network: true}\nguards:\n  - {id: quiet, tool: shout, action: deny, reason: quiet please}\n---\nDo the task.\n"
	// forecaster has a tool that a program elsewhere serves; indoors has a guard that denies it, unserved tries it once
	// more only.
	forecaster = "---\nname: forecaster\ndescription: Tells the weather\nmodel: scripted/forecaster\ntools: [forecast]\nharness: {retry: {max_retries: 20, base_backoff: 20ms}}\n---\nDo the task.\n"
	indoors    = "---\nname: indoors\ndescription: May not look outside\nmodel: scripted/forecaster\ntools: [forecast]\nguards:\n  - {id: in, tool: forecast, action: deny, reason: stay in}\n---\nDo the task.\n"
	unserved   = "---\nname: unserved\ndescription: Has no one to ask\nmodel: scripted/forecaster\ntools: [forecast]\nharness: {retry: {max_retries: 1, base_backoff: 20ms}}\n---\nDo the task.\n"
	forecast   = `turns:
  - when: {turn: 1}
    calls: [{id: a, name: forecast, input: {city: Oslo}}]
  - when: {turn: 2}
    text: "It will be: {{result.1}}"
`
)

// herald starts a station with the tool and the agents in a folder of its own.
func herald(ctx context.Context, listen string) (*station.Station, func(), error) {
	dir, err := os.MkdirTemp("", "inspan-external-")
	if err != nil {
		return nil, nil, err
	}
	for name, text := range map[string]string{"agents/herald.prompt": agent, "agents/sly.prompt": sly, "scripts/herald.yaml": script,
		"agents/forecaster.prompt": forecaster, "agents/indoors.prompt": indoors, "agents/unserved.prompt": unserved, "scripts/forecaster.yaml": forecast} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			return nil, nil, err
		}
	}
	if err := pinned(filepath.Join(dir, "agents")); err != nil {
		return nil, nil, err
	}
	st, err := station.Start(ctx, station.Config{Dir: filepath.Join(dir, "store"), Listen: listen, Agents: filepath.Join(dir, "agents"),
		Scripts: filepath.Join(dir, "scripts"), Sandbox: "host", Tools: []tool.Tool{Shout{}}, ToolsPassword: password})
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return st, func() {
		if err := errors.Join(st.Close(context.Background()), os.RemoveAll(dir)); err != nil {
			panic(err)
		}
	}, nil
}

// ended runs a task and returns its state at the end.
func ended(ctx context.Context, c *client.Client, t events.Task) (last run.State, err error) {
	id, err := c.Start(ctx, t)
	if err != nil {
		return last, err
	}
	for item, err := range c.Watch(ctx, id, 0) {
		if err != nil {
			return last, err
		}
		last = item.State
	}
	return last, nil
}

// How do I run my own tool in a station of my own?
func Example_station() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	st, stop, err := herald(ctx, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	last, err := ended(ctx, st.Client(), events.Task{ID: "news", Agent: "herald", Task: "Announce it."})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := os.ReadFile(filepath.Join(st.Workspace(), "run", "news", "news.txt"))
	fmt.Println(last.Status, last.Result.Output, string(text), err)
	// Output: completed It is announced. HEAR YE <nil>
}

// How do I talk to a station that runs elsewhere?
func Example_client() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	st, stop, err := herald(ctx, "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	c, err := client.Connect(ctx, client.Config{URL: st.URL()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	last, err := ended(ctx, c, events.Task{Agent: "herald", Task: "Announce it."})
	fmt.Println(last.Status, err)
	// Output: completed <nil>
}

// TestShout is how a tool is tested: by the exam that the built-in tools pass, and by what it does.
func TestShout(t *testing.T) {
	t.Parallel()
	env := func(t *testing.T) tool.Env {
		e := tooltest.Env(t)
		if err := e.Sandbox.WriteFile("a.txt", []byte("quiet")); err != nil {
			t.Fatal(err)
		}
		return e
	}
	tooltest.Exam(t, Shout{}, env, `{"path":"a.txt"}`, `{"path":"missing.txt"}`)
	e := env(t)
	if r, err := (Shout{}).Run(t.Context(), tool.Call{Input: []byte(`{"path":"a.txt"}`), Env: e}); err != nil || r.Failed || r.Output != "5 bytes" {
		t.Errorf("got %+v, %v", r, err)
	}
	if b, err := e.Sandbox.ReadFile("a.txt"); err != nil || string(b) != "QUIET" {
		t.Errorf("got %q, %v", b, err)
	}
}

// TestGuarded shows that the gatekeeper judges a tool of others like any other.
func TestGuarded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	st, stop, err := herald(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	last, err := ended(ctx, st.Client(), events.Task{ID: "quiet", Agent: "sly", Task: "Announce it."})
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for item, err := range st.Client().Events(ctx, "quiet", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if item.Payload.Kind() == events.CallRefused {
			refused++
		}
	}
	text, err := os.ReadFile(filepath.Join(st.Workspace(), "run", "quiet", "news.txt"))
	if err != nil || string(text) != "hear ye" || refused != 1 {
		t.Errorf("status %s, %d calls refused, file %q, %v; want the one call refused and the file as it was", last.Status, refused, text, err)
	}
}
