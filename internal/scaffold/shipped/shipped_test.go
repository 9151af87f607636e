package shipped_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/llm/scripted"
	"github.com/inspan/inspan/internal/scaffold/shipped"
	"github.com/inspan/inspan/internal/tools"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// parts are the files that each agent has.
func parts(agent string) []string {
	return []string{agent + ".prompt", "fixture.txtar", "script.yaml", "task.json", "wrong.yaml"}
}

func TestCatalogue(t *testing.T) {
	t.Parallel()
	agents := all(t)
	t.Run("ID-15 there are 21 agents, each with all parts and nothing else", func(t *testing.T) {
		t.Parallel()
		if len(agents) != 21 {
			t.Errorf("got %d agents, want 21", len(agents))
		}
		for _, name := range shipped.Names() {
			var have []string
			entries, err := os.ReadDir(filepath.Join("agents", name))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				have = append(have, e.Name())
			}
			want := parts(name)
			slices.Sort(want)
			if slices.Sort(have); !slices.Equal(have, want) {
				t.Errorf("agent %s has %v, want %v", name, have, want)
			}
		}
	})
	t.Run("ID-15 an agent that does not ship is an error with the nearest name", func(t *testing.T) {
		t.Parallel()
		if _, err := shipped.Find("revewer"); !errors.Is(err, shipped.ErrUnknown) || !strings.Contains(err.Error(), `did you mean "reviewer"?`) {
			t.Errorf("%v", err)
		}
	})
	for _, a := range agents {
		t.Run("ID-11 ID-15 "+a.Name+" parses without a warning, with tools that exist and limits", func(t *testing.T) {
			t.Parallel()
			_, warnings, err := agentfile.Parse(a.Name, a.File)
			if err != nil || len(warnings) > 0 {
				t.Fatal(err, warnings)
			}
			for _, name := range a.Tools {
				if !slices.ContainsFunc(tools.Builtin(), func(tl tool.Tool) bool { return tl.Spec().Name == name }) {
					t.Errorf("there is no tool %s", name)
				}
			}
			if a.Description == "" || a.MaxSteps == 0 || a.TimeoutMS == 0 || a.MaxToolCalls == 0 || a.MaxTokens == 0 || a.Autonomy == 0 {
				t.Errorf("a limit or the description is missing: %+v", a.Agent)
			}
			if a.Model != "scripted/"+a.Name {
				t.Errorf("model %s", a.Model)
			}
			if n := len(a.File); n > 8<<10 {
				t.Errorf("the file has %d bytes", n)
			}
		})
		t.Run("ID-15 the prompt of "+a.Name+" says when to stop, what to hand over, and that files are data", func(t *testing.T) {
			t.Parallel()
			r, err := agentfile.Render(a.Agent, agentfile.RenderInput{Task: "THE TASK"})
			if err != nil || r.User != "THE TASK" {
				t.Fatal(err, r.User)
			}
			for _, want := range []string{"\nStop ", "\nHand over", "data"} {
				if !strings.Contains(r.System, want) {
					t.Errorf("no %q in the prompt", want)
				}
			}
		})
		t.Run("ID-15 the trial of "+a.Name+" can be read", func(t *testing.T) {
			t.Parallel()
			tr := trial(t, a)
			if fault := tr.Accept.Fault(); fault != "" || tr.Task == "" || tr.Accept.Checks[0].Kind != events.CheckCommand || tr.Accept.Checks[0].Name == "" {
				t.Errorf("%s %+v", fault, tr.Accept)
			}
			if _, err := scripted.Parse(a.Name, tr.Script); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPermitted(t *testing.T) {
	t.Parallel()
	for _, a := range all(t) {
		t.Run("ID-11 "+a.Name+" has no more than its trade needs", func(t *testing.T) {
			t.Parallel()
			only := strings.Contains(a.Description, "nothing but its report") || strings.Contains(a.Description, "nothing else")
			for _, p := range view.Permits(a.Agent) {
				writes := p.Tool == "write" || p.Tool == "edit"
				switch {
				case only && (p.Tool == "bash" || p.Tool == "edit"):
					t.Errorf("it has %s and changes nothing but its report", p.Tool)
				case only && writes && !slices.Contains(p.Deny, "*"):
					t.Errorf("it may write more than its report: %+v", p)
				case p.Tool == "bash" && len(p.Ask)+len(p.Deny) == 0:
					t.Error("bash has no rule")
				}
			}
			for _, never := range []string{"git_push", "git_merge", "web_fetch"} {
				if slices.Contains(a.Tools, never) {
					t.Errorf("it has %s", never)
				}
			}
			if a.Sandbox.Network {
				t.Error("it has a network")
			}
		})
	}
}

func TestCopy(t *testing.T) {
	t.Parallel()
	for _, a := range all(t) {
		t.Run("ID-15 a copy of "+a.Name+" differs in name, model and sandbox only", func(t *testing.T) {
			t.Parallel()
			data, err := a.Copy(shipped.Setting{Name: "mine", Model: "anthropic/claude-sonnet-5-5", Sandbox: "host"})
			if err != nil {
				t.Fatal(err)
			}
			b, _, err := agentfile.Parse("mine", data)
			if err != nil || b.Name != "mine" || b.Model != "anthropic/claude-sonnet-5-5" || b.Sandbox.Mode != "host" {
				t.Fatalf("%v %+v", err, b)
			}
			was, is := strings.Split(string(a.File), "\n"), strings.Split(string(data), "\n")
			changed := 0
			for i := range was {
				if was[i] != is[i] {
					changed++
				}
			}
			if len(was) != len(is) || changed != 3 {
				t.Errorf("%d of %d lines changed, want 3", changed, len(was))
			}
			if got, want := fmt.Sprint(view.Permits(b)), fmt.Sprint(view.Permits(a.Agent)); got != want {
				t.Errorf("permits %s, want %s", got, want)
			}
		})
	}
	t.Run("CLI-2 what cannot stand in the file is refused", func(t *testing.T) {
		t.Parallel()
		a := all(t)[0]
		for _, s := range []shipped.Setting{{Model: "x/y\nguards: []"}, {Name: "a b"}, {Sandbox: "#"}, {Model: "nomodel"}} {
			if _, err := a.Copy(s); err == nil {
				t.Errorf("%+v was made", s)
			}
		}
	})
}

// TestPage holds docs/agents.md to the catalogue.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "agents.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all(t) {
		t.Run("ID-11 ID-15 docs/agents.md lists "+a.Name+" with its tools", func(t *testing.T) {
			t.Parallel()
			row := fmt.Sprintf("| `%s` | %s | %s |", a.Name, a.Description, strings.Join(a.Tools, ", "))
			if !strings.Contains(string(page), row) {
				t.Errorf("no row begins with\n%s", row)
			}
		})
	}
}
