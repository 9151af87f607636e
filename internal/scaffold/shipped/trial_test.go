package shipped_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/cli/workcopy"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/scaffold/shipped"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/station"
)

// patience bounds every wait; a wait ends as soon as what it waits for is there.
const patience = 5 * time.Minute

// desk is a station with all agents that ship, and the repository of each trial.
type desk struct {
	t  *testing.T
	st *station.Station
	// repos are the folders of the repositories, by agent.
	repos map[string]string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	dir := t.TempDir()
	at := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	d := &desk{t: t, repos: map[string]string{}}
	for _, folder := range []string{"agents", "scripts"} {
		if err := os.MkdirAll(at(folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put := func(data []byte, parts ...string) {
		if err := os.WriteFile(at(parts...), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range all(t) {
		put(a.File, "agents", a.Name+".prompt")
		put(trial(t, a).Script, "scripts", a.Name+".yaml")
		put([]byte(sneak), "scripts", a.Name+"-sneak.yaml")
		wrong, err := os.ReadFile(filepath.Join("agents", a.Name, "wrong.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		put(wrong, "scripts", a.Name+"-wrong.yaml")
		d.repos[a.Name] = repository(t, a)
	}
	var err error
	d.st, err = station.Start(context.Background(), station.Config{Dir: at("store"), Agents: at("agents"), Scripts: at("scripts"), LazySync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.st.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return d
}

func all(t *testing.T) []shipped.Agent {
	t.Helper()
	agents, err := shipped.All()
	if err != nil {
		t.Fatal(err)
	}
	return agents
}

func trial(t *testing.T, a shipped.Agent) shipped.Trial {
	t.Helper()
	tr, err := a.Trial()
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// repository makes that of a trial.
func repository(t *testing.T, a shipped.Agent) string {
	t.Helper()
	dir := t.TempDir()
	if err := trial(t, a).Make(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// telling are the events that say why a run ended as it did.
var telling = []events.Kind{events.CallFailed, events.CallRefused, events.GateOpened, events.CheckPassed, events.CheckFailed,
	events.RunCompleted, events.RunFailed, events.RunPaused}

// run carries the trial of an agent out with a model and returns how it ended.
func (d *desk) run(t *testing.T, a shipped.Agent, model string, claims int) (s run.State, log string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tr := trial(t, a)
	accept := *tr.Accept
	accept.MaxAttempts = claims
	task := events.Task{ID: model, Agent: a.Name, Task: tr.Task, Model: "scripted/" + model, Accept: &accept}
	c, err := workcopy.Find(ctx, d.repos[a.Name], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Into(ctx, d.st.Workspace(), &task); err != nil {
		t.Fatal(err)
	}
	id, err := d.st.Client().Start(ctx, task)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for item, err := range d.st.Client().Watch(ctx, id, 0) {
		if err != nil {
			t.Fatal(err, b.String())
		}
		if kind, _ := item.Event.Kind(); slices.Contains(telling, kind) {
			fmt.Fprintf(&b, "%s %.700s\n", kind, item.Event.Data)
		}
		s = item.State
		if len(s.Waiting()) > 0 {
			t.Fatalf("it waits for a person:\n%s", b.String())
		}
	}
	return s, b.String()
}

// TestTrials runs every agent that ships on its trial, with real tools in a real sandbox.
func TestTrials(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, a := range all(t) {
		t.Run("ID-15 the check of "+a.Name+" fails without the work", func(t *testing.T) {
			check, why, err := trial(t, a).Seeded(t.Context(), d.repos[a.Name])
			if err != nil {
				t.Fatal(err)
			}
			if why == "" {
				t.Errorf("%s fails and says nothing", check)
			}
		})
		t.Run("ID-15 "+a.Name+" does the work of its trial, and its check verifies it", func(t *testing.T) {
			t.Parallel()
			d.works(t, a)
		})
		t.Run("ID-15 PLUS-10 wrong work of "+a.Name+" is not verified", func(t *testing.T) {
			t.Parallel()
			s, log := d.run(t, a, a.Name+"-wrong", 1)
			if s.Status != events.Failed || s.Result.FinishReason != events.FinishUnverified {
				t.Fatalf("%s, %+v\n%s", s.Status, s.Result, log)
			}
			if want := trial(t, a).Accept.Checks[0].Name; !strings.Contains(s.Result.Error, want) {
				t.Errorf("it failed otherwise than by %q: %s", want, s.Result.Error)
			}
		})
		if !confined(a) {
			continue
		}
		t.Run("ID-11 SEC "+a.Name+" cannot write what its rules do not name", func(t *testing.T) {
			t.Parallel()
			d.sneaks(t, a)
		})
	}
}

func (d *desk) works(t *testing.T, a shipped.Agent) {
	t.Helper()
	s, log := d.run(t, a, a.Name, 1)
	if s.Status != events.Completed || s.Result == nil {
		t.Fatalf("%s, %+v\n%s", s.Status, s.Result, log)
	}
	want := trial(t, a).Accept.Checks[0].Name
	if !slices.ContainsFunc(s.Result.Verified, func(v events.Verified) bool { return v.Name == want }) {
		t.Errorf("verified by %+v, want %q", s.Result.Verified, want)
	}
	used := map[string]bool{}
	for _, c := range run.Slice(s.ToolCallHistory) {
		used[c.CallName] = true
		if c.Code != "" {
			t.Errorf("call %s was refused or failed: %s %s", c.CallName, c.Code, c.Result)
		}
	}
	if len(used) < 2 {
		t.Errorf("it used only %v", used)
	}
}

// sneak is the script of a model that writes where it should not, and then claims that it is done.
const sneak = `turns:
  - when: {turn: 1}
    calls:
      - {name: write, input: {path: src/backdoor.py, content: "x = 1\n"}}
      - {name: write, input: {path: ../out.txt, content: "x = 1\n"}}
  - text: Done.
`

// confined reports whether an agent may write only what its rules name.
func confined(a shipped.Agent) bool {
	return slices.ContainsFunc(view.Permits(a.Agent), func(p view.Permit) bool {
		return p.Tool == "write" && slices.Contains(p.Deny, "*")
	})
}

func (d *desk) sneaks(t *testing.T, a shipped.Agent) {
	t.Helper()
	s, log := d.run(t, a, a.Name+"-sneak", 1)
	calls := 0
	for _, c := range run.Slice(s.ToolCallHistory) {
		if c.CallName != "write" {
			continue
		}
		if calls++; c.Success {
			t.Errorf("it wrote %s", c.Arguments)
		}
	}
	if calls != 2 || s.Status != events.Failed {
		t.Errorf("%d calls, %s\n%s", calls, s.Status, log)
	}
}
