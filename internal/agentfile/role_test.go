package agentfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/pkg/events"
)

const roleText = `version: 1
rules:
  - {id: no-make, tool: bash, match: {argv: [make, "**"]}, action: deny, reason: the refinery builds, locked: true}
  - {id: careful, tool: write, action: ask, reason: think}
hooks:
  - {id: seen, on: pre_tool, builtin: log}
harness:
  max_steps: 7
  sandbox: {mode: bwrap}
`

// town writes files below a folder.
func town(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRoles(t *testing.T) {
	t.Parallel()
	plain := func(more string) string {
		return "---\nmodel: scripted/x\ntools: [bash, write]\n" + more + "---\nGo.\n"
	}
	t.Run("WS-9 agents of one role class take guards, hooks and settings from the folder above them", func(t *testing.T) {
		t.Parallel()
		dir := town(t, map[string]string{
			"alone.prompt":              plain(""),
			"web/polecats/role.yaml":    roleText,
			"web/polecats/nux.prompt":   plain("memory: {sources: [NOTES.md]}\n"),
			"web/polecats/NOTES.md":     "of the role",
			"web/polecats/slit.prompt":  plain("harness: {max_steps: 3}\nguards: [{id: careful, tool: write, action: allow}]\nhooks: [{id: own, on: pre_tool, builtin: log}]\n"),
			"web/witness/eye.prompt":    plain(""),
			"skills/deep/SKILL.md":      "---\nname: deep\ndescription: d\n---\nx",
			"web/polecats/x/far.prompt": plain(""),
		})
		agents, _, err := agentfile.LoadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(agents) != 4 {
			t.Fatalf("%d agents", len(agents))
		}
		judge := func(name string, a guard.Action) guard.Verdict {
			set, err := guard.Build(agents[name].Guards)
			if err != nil {
				t.Fatal(err)
			}
			return set.Judge(a)
		}
		run, write := guard.Action{Tool: "bash", Commands: [][]string{{"make", "all"}}}, guard.Action{Tool: "write", Paths: []string{"x"}}
		for name, want := range map[string][2]string{"nux": {guard.Deny, guard.Ask}, "slit": {guard.Deny, guard.Allow}, "eye": {guard.Allow, guard.Allow}, "alone": {guard.Allow, guard.Allow}} {
			if got := [2]string{judge(name, run).Action, judge(name, write).Action}; got != want {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
		}
		nux, slit, eye, alone := agents["nux"], agents["slit"], agents["eye"], agents["alone"]
		hooks := func(a events.Agent) (ids []string) {
			for _, h := range a.Hooks {
				ids = append(ids, h.ID)
			}
			return ids
		}
		if !slices.Equal(hooks(nux), []string{"seen"}) || !slices.Equal(hooks(slit), []string{"seen", "own"}) || hooks(eye) != nil || hooks(alone) != nil {
			t.Errorf("hooks: %v %v %v %v", hooks(nux), hooks(slit), hooks(eye), hooks(alone))
		}
		if nux.MaxSteps != 7 || slit.MaxSteps != 3 || nux.Sandbox.Mode != "bwrap" || eye.MaxSteps != 0 || alone.MaxSteps != 0 {
			t.Errorf("settings: %d %d %q %d %d", nux.MaxSteps, slit.MaxSteps, nux.Sandbox.Mode, eye.MaxSteps, alone.MaxSteps)
		}
		if nux.Project != "web" || nux.Role != "polecats" || eye.Role != "witness" || alone.Project+alone.Role != "" || len(nux.Memory) != 1 || nux.Memory[0].Text != "of the role" {
			t.Errorf("%+v", nux)
		}
		changed := town(t, map[string]string{"web/polecats/role.yaml": roleText + "x-note: 1\n", "web/polecats/nux.prompt": plain("memory: {sources: [NOTES.md]}\n"), "web/polecats/NOTES.md": "of the role"})
		again, _, err := agentfile.LoadDir(changed)
		if err != nil || again["nux"].Digest == nux.Digest {
			t.Errorf("the digest of an agent does not cover its role: %v", err)
		}
	})
	t.Run("WS-9 the settings of a role come before those of the station, and after the agent's own", func(t *testing.T) {
		t.Parallel()
		set, _, err := agentfile.ReadSettings("config.yaml", []byte("harness: {max_steps: 9, timeout: 3m}\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		agents, _, err := set.Defaults.LoadDir(town(t, map[string]string{"p/r/role.yaml": roleText, "p/r/a.prompt": plain(""), "b.prompt": plain("")}))
		if err != nil || agents["a"].MaxSteps != 7 || agents["a"].TimeoutMS != 180_000 || agents["b"].MaxSteps != 9 {
			t.Errorf("%v: %d %d %d", err, agents["a"].MaxSteps, agents["a"].TimeoutMS, agents["b"].MaxSteps)
		}
	})
	t.Run("WS-9 SAFE-12 where what a role shares cannot be had, its agents are not there", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			files map[string]string
			want  string
		}{
			"a rule that no one knows":     {map[string]string{"p/r/role.yaml": "version: 1\nrules: [{id: x, action: forbid}]\n", "p/r/a.prompt": plain("")}, "p/r/role.yaml"},
			"an unknown key":               {map[string]string{"p/r/role.yaml": "version: 1\nguard: []\n", "p/r/a.prompt": plain("")}, "guard"},
			"no version":                   {map[string]string{"p/r/role.yaml": "rules: []\n", "p/r/a.prompt": plain("")}, "version"},
			"too large":                    {map[string]string{"p/r/role.yaml": "version: 1\n#" + strings.Repeat("x", agentfile.MaxFrontmatter), "p/r/a.prompt": plain("")}, "too large"},
			"an agent that takes it back":  {map[string]string{"p/r/role.yaml": roleText, "p/r/a.prompt": plain("guards: [{id: no-make, remove: true}]\n")}, "locked by p/r/role.yaml"},
			"a hook of the same name":      {map[string]string{"p/r/role.yaml": roleText, "p/r/a.prompt": plain("hooks: [{id: seen, on: turn, builtin: log}]\n")}, "seen"},
			"two agents of one name":       {map[string]string{"p/r/a.prompt": plain(""), "p/s/a.prompt": plain("")}, "two agents"},
			"a project where trees are":    {map[string]string{"session/r/a.prompt": plain("")}, "working trees"},
			"what is wrong with its agent": {map[string]string{"p/r/a.prompt": "---\nmodel: x\n---\n"}, "p/r/a.prompt"},
		} {
			agents, _, err := agentfile.LoadDir(town(t, c.files))
			if err == nil || !strings.Contains(err.Error(), c.want) || len(agents) > 1 || len(agents) == 1 && name != "two agents of one name" {
				t.Errorf("%s: %d agents, %v, want %q", name, len(agents), err, c.want)
			}
			if _, ok := errors.AsType[*agentfile.Error](err); !ok {
				t.Errorf("%s: %T tells no place", name, err)
			}
		}
	})
	t.Run("WS-9 a role's file is not read through a link that leads out", func(t *testing.T) {
		t.Parallel()
		dir := town(t, map[string]string{"p/r/a.prompt": plain("")})
		outside := town(t, map[string]string{"role.yaml": roleText})
		if err := os.Symlink(filepath.Join(outside, "role.yaml"), filepath.Join(dir, "p", "r", agentfile.RoleFile)); err != nil {
			t.Fatal(err)
		}
		if agents, _, err := agentfile.LoadDir(dir); err == nil || len(agents) != 0 {
			t.Errorf("%d agents, %v", len(agents), err)
		}
	})
}
