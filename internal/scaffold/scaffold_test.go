package scaffold

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/tools"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	built := []string{tools.Prometheus(tools.PrometheusConfig{}).Spec().Name}
	for _, tl := range tools.Builtin() {
		built = append(built, tl.Spec().Name)
	}
	want := map[string][]string{"coding": coding, "sre": {"read", "bash", "grep", "prometheus"},
		"security": {"read", "glob", "grep", "secret_scan"}, "data": {"read", "write", "bash"}}
	for _, tp := range Templates() {
		t.Run("CLI-4 TOOL-20 the template "+tp.Name+" makes an agent whose tools exist", func(t *testing.T) {
			t.Parallel()
			data, warnings, err := Agent{Name: "new", Template: tp.Name, Model: "scripted/new", Sandbox: "host", MaxSteps: 7}.File()
			if err != nil || len(warnings) != 0 {
				t.Fatal(err, warnings)
			}
			a, _, err := agentfile.Parse("new", data)
			if err != nil || a.MaxSteps != 7 || a.Sandbox.Mode != "host" || a.Model != "scripted/new" || a.Description == "" || a.TimeoutMS == 0 {
				t.Errorf("%v %+v", err, a)
			}
			if !slices.Equal(a.Tools, want[tp.Name]) {
				t.Errorf("tools %v, want %v", a.Tools, want[tp.Name])
			}
			for _, name := range a.Tools {
				if !slices.Contains(built, name) {
					t.Errorf("there is no tool %s", name)
				}
				if name == "bash" && len(a.Guards) == 0 {
					t.Error("an agent with bash has no guard")
				}
			}
			r, err := agentfile.Render(a, agentfile.RenderInput{Task: "THE TASK"})
			if err != nil || r.User != "THE TASK" || len(r.System) < 500 {
				t.Errorf("%v %q", err, r.User)
			}
		})
	}
	t.Run("CLI-2 what cannot stand in the file is refused", func(t *testing.T) {
		t.Parallel()
		for _, a := range []Agent{{Name: "a.b", Template: "coding", Model: "x/y"}, {Name: "a", Template: "codign", Model: "x/y"}, {Name: "a", Template: "coding", Model: "x/y\nguards: []"},
			{Name: "a", Template: "coding", Model: "nomodel"}, {Name: "a", Template: "coding", Model: "x/y", Sandbox: "prison"}, {Name: "a", Template: "coding", Model: "x/y", MaxSteps: -1}} {
			if _, _, err := a.File(); err == nil {
				t.Errorf("%+v was made", a)
			}
		}
		if _, err := Find("codign"); err == nil || !strings.Contains(err.Error(), `did you mean "coding"?`) {
			t.Errorf("%v", err)
		}
	})
	t.Run("CLI-2 an image is written down, and said to have no effect yet", func(t *testing.T) {
		t.Parallel()
		data, warnings, err := Agent{Name: "true", Template: "data", Model: "x/y", Sandbox: "docker", Image: "python:3.13"}.File()
		if err != nil || !bytes.Contains(data, []byte(`image: "python:3.13"`)) {
			t.Errorf("%v\n%s", err, data)
		}
		for _, w := range warnings {
			if w.Path != "sandbox.image" {
				t.Errorf("%v", w)
			}
		}
	})
}
