package cli_test

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestAgents(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "agents")
	text(t, filepath.Join(dir, "sound.prompt"), "---\nmodel: scripted/x\ntools: [read, grep]\nharness_config: {max_steps: 4}\nharness: agentic\nschedule: \"0 2 * * *\"\nwebhook: /hooks/x\nsubscribe: [{subject: alerts.a, task: \"look at {{.name}}\"}]\n---\nhi\n")
	type file struct {
		Agents []struct {
			Name, Model, File string
			Tools             []string
			MaxSteps          int `json:"max_steps"`
		}
		Warnings []struct{ Path, Code string }
		Errors   []struct {
			File, Path, Hint string
			Line             int
		}
	}
	t.Run("ID-10 ID-11 the agents of a folder are listed with model, tools and file, and what has no effect yet is told", func(t *testing.T) {
		s := inspan(t, "agents", "--dir", dir, "--json")
		out := decode[file](t, s.out)
		if s.code != 0 || len(out.Agents) != 1 || len(out.Errors) != 0 {
			t.Fatalf("exit %d %s", s.code, s.out)
		}
		a := out.Agents[0]
		if a.Name != "sound" || a.Model != "scripted/x" || strings.Join(a.Tools, " ") != "read grep" || a.File != filepath.Join(dir, "sound.prompt") || a.MaxSteps != 4 {
			t.Errorf("%+v", a)
		}
		told := map[string]string{}
		for _, w := range out.Warnings {
			told[w.Path] = w.Code
		}
		for _, key := range []string{"webhook"} {
			if told[key] != "no_effect_yet" {
				t.Errorf("%s is not told of: %v", key, told)
			}
		}
		for _, key := range []string{"schedule", "subscribe"} {
			if _, ok := told[key]; ok {
				t.Errorf("%s has an effect: %v", key, told)
			}
		}
		if s := inspan(t, "agents", "--dir", dir); s.code != 0 || !strings.Contains(s.out, "sound.prompt") || !strings.Contains(s.err, "note   sound.prompt:7: webhook") {
			t.Errorf("exit %d\n%s\n%s", s.code, s.out, s.err)
		}
	})
	t.Run("ID-10 what is wrong with a file is told with its line and the nearest key, and the others are listed", func(t *testing.T) {
		text(t, filepath.Join(dir, "broken.prompt"), "---\nmodel: scripted/x\nharness:\n  max_stepz: 4\n---\nhi\n")
		s := inspan(t, "agents", "--dir", dir)
		if s.code != 1 || !strings.Contains(s.err, "broken.prompt:4: harness.max_stepz") || !strings.Contains(s.err, "did you mean max_steps?") || !strings.Contains(s.out, "sound") {
			t.Errorf("exit %d\n%s\n%s", s.code, s.out, s.err)
		}
		j := inspan(t, "agents", "--dir", dir, "--json")
		if out := decode[file](t, j.out); j.code != 1 || len(out.Errors) != 1 || out.Errors[0].Line != 4 || len(out.Agents) != 1 {
			t.Errorf("exit %d %s", j.code, j.out)
		}
	})
	t.Run("WS-9 ID-10 agents of roles are listed with their files, and what is wrong with a role is told with its file", func(t *testing.T) {
		town := t.TempDir()
		text(t, filepath.Join(town, "web", "polecats", "role.yaml"), "version: 1\nharness: {max_steps: 7}\n")
		text(t, filepath.Join(town, "web", "polecats", "nux.prompt"), "---\nmodel: scripted/x\n---\nhi\n")
		s := inspan(t, "agents", "--dir", town, "--json")
		if out := decode[file](t, s.out); s.code != 0 || len(out.Agents) != 1 || out.Agents[0].File != filepath.Join(town, "web", "polecats", "nux.prompt") || out.Agents[0].MaxSteps != 7 {
			t.Errorf("exit %d %s", s.code, s.out)
		}
		text(t, filepath.Join(town, "web", "polecats", "role.yaml"), "version: 1\nharness: {max_stepz: 7}\n")
		if s := inspan(t, "agents", "--dir", town); s.code != 1 || !strings.Contains(s.err, "web/polecats/role.yaml:2: harness.max_stepz") || strings.Contains(s.out, "nux") {
			t.Errorf("exit %d\n%s\n%s", s.code, s.out, s.err)
		}
	})
	t.Run("ID-10 a folder without agents, and none", func(t *testing.T) {
		if s := inspan(t, "agents", "--dir", t.TempDir()); s.code != 0 || !strings.Contains(s.out, "inspan agent init") {
			t.Errorf("exit %d %s%s", s.code, s.out, s.err)
		}
		if s := inspan(t, "agents", "--dir", filepath.Join(dir, "none")); s.code == 0 || s.err == "" {
			t.Errorf("exit %d %s", s.code, s.err)
		}
	})
}
