package adopt_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/inspan/inspan/internal/adopt"
	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/formula"
)

func read(t *testing.T, dir string, how func(*os.Root) (*adopt.Report, error)) *adopt.Report {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	r, err := how(root)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lines are a report in short, in order.
func lines(r *adopt.Report) (all []string) {
	for _, i := range r.Items {
		to := ""
		if r.Files[i.To] != nil {
			to = " -> " + i.To
		}
		all = append(all, fmt.Sprintf("%s %s %s%s", i.Outcome, i.Kind, i.Name, to))
	}
	slices.Sort(all)
	return all
}

func TestGastown(t *testing.T) {
	t.Parallel()
	r := read(t, "testdata/gastown", adopt.Gastown)
	t.Run("each thing is taken, changed or refused, with the reason", func(t *testing.T) {
		t.Parallel()
		want := []string{
			"changed address list/oncall", "changed address queue/work-web", "changed agent mayor -> agents/mayor.prompt",
			"changed agent polecat -> agents/polecat.prompt", "changed alerts escalation", "changed queue web",
			"changed role mayor -> agents/roles/mayor.toml", "changed rules policy -> policy.yaml",
			"changed runtime claude-fast -> agents/runtimes/claude-fast.toml", "refused address a;rm -rf", "refused address nobody",
			"refused formula loop", "refused hook SessionStart", "refused role odd", "refused rules Bash(gh pr create*)", "refused rules Task",
			"refused runtime ../up", "refused runtime mystery", "taken address channel/alerts",
			"taken formula ship -> formulas/ship.formula.toml", "taken role web/polecat -> agents/web/polecat/role.toml",
		}
		if got := lines(r); !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		for _, i := range r.Items {
			if i.Outcome != adopt.Taken && len(i.Notes) == 0 {
				t.Errorf("%s %s is %s without a reason", i.Kind, i.Name, i.Outcome)
			}
		}
	})
	t.Run("what belongs to a station is a command whose arguments stay what they are", func(t *testing.T) {
		t.Parallel()
		var got []string
		for _, c := range r.Commands {
			got = append(got, adopt.Quoted(c))
		}
		slices.Sort(got)
		want := []string{
			"inspan agents alerts critical=web/witness/witness high=town/mayor/mayor",
			"inspan mail register channel/alerts --member web/witness/witness",
			"inspan mail register list/oncall --member town/mayor/mayor --member web/polecat/nux",
			"inspan mail register queue/work-web",
			`inspan queue add web --repo https://git.example.org/web.git --branch main --agent refinery --accept 'go test ./... && echo '\''ok'\'''`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s", strings.Join(got, "\n"))
		}
	})
	t.Run("what is written is read by the station without a fault", func(t *testing.T) {
		t.Parallel()
		loads(t, r)
		policy, _, err := agentfile.ParsePolicy("policy.yaml", r.Files["policy.yaml"])
		if err != nil || len(policy.Rules) != 2 || policy.Rules[0].Action != "deny" || policy.Rules[1].Action != "ask" {
			t.Errorf("%+v, %v", policy.Rules, err)
		}
	})
}

// loads writes what was made and reads it as a station does.
func loads(t *testing.T, r *adopt.Report) {
	t.Helper()
	dir := t.TempDir()
	for at, text := range r.Files {
		path := filepath.Join(dir, at)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	agents, _, err := agentfile.Defaults{}.LoadDir(filepath.Join(dir, "agents"))
	if err != nil || len(agents) == 0 {
		t.Fatalf("%v, %v", agents, err)
	}
	if r.Files["agents/roles/mayor.toml"] != nil && len(agents["polecat"].Roles) != 1 {
		t.Errorf("%+v", agents["polecat"].Roles)
	}
	flows := os.DirFS(filepath.Join(dir, "formulas"))
	all, err := formula.Names(flows)
	for _, n := range all {
		if _, err := formula.Load(flows, n); err != nil {
			t.Errorf("formula %s: %v", n, err)
		}
	}
	if err != nil || len(all) == 0 {
		t.Errorf("%v, %v", all, err)
	}
}

func TestStation(t *testing.T) {
	t.Parallel()
	t.Run("agents, workflows, settings and permissions are taken; servers and secrets are not", func(t *testing.T) {
		t.Parallel()
		r := read(t, "testdata/station", adopt.Station)
		want := []string{"changed agent reviewer -> agents/reviewer.prompt", "changed rules policy -> policy.yaml",
			"changed settings harness -> config.yaml", "refused agent broken", "refused settings ai_provider", "refused settings database_url",
			"refused tool servers template.json", "refused variables variables.yml", "taken workflow triage -> formulas/triage.workflow.yaml"}
		if got := lines(r); !slices.Equal(got, want) {
			t.Errorf("got\n%s", strings.Join(got, "\n"))
		}
		loads(t, r)
		if s, _, err := agentfile.ReadSettings("config.yaml", r.Files["config.yaml"], nil); err != nil || strings.Contains(string(r.Files["config.yaml"]), "permissions") {
			t.Errorf("%+v, %v", s, err)
		}
		policy, _, err := agentfile.ParsePolicy("policy.yaml", r.Files["policy.yaml"])
		if err != nil || len(policy.Rules) != 2 || policy.Rules[1].Action != "deny" || policy.Rules[1].Match.Glob != "rm -rf *" {
			t.Errorf("%+v, %v", policy.Rules, err)
		}
	})
}

func TestHostileFolder(t *testing.T) {
	t.Parallel()
	write := func(t *testing.T, dir, at, text string) {
		t.Helper()
		path := filepath.Join(dir, at)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	both := func(t *testing.T, dir string) (files int, all string) {
		t.Helper()
		for _, how := range []func(*os.Root) (*adopt.Report, error){adopt.Gastown, adopt.Station} {
			r := read(t, dir, how)
			for at, text := range r.Files {
				all += at + string(text)
			}
			all += strings.Join(lines(r), "\n") + fmt.Sprint(r.Items)
			files += len(r.Files)
		}
		return files, all
	}
	t.Run("a link out of the folder, or a pipe, is not opened", func(t *testing.T) {
		t.Parallel()
		dir, out := t.TempDir(), t.TempDir()
		write(t, out, "secret.prompt", "the secret of another folder")
		write(t, out, "roles/mayor.toml", "role = \"the secret of another folder\"")
		for from, to := range map[string]string{"secret.prompt": "a.prompt", "roles": "roles", "roles/mayor.toml": "settings/agents.json"} {
			at := filepath.Join(dir, to)
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(out, from), at); err != nil {
				t.Fatal(err)
			}
		}
		if err := syscall.Mkfifo(filepath.Join(dir, "b.prompt"), 0o600); err != nil {
			t.Fatal(err)
		}
		if n, all := both(t, dir); n != 0 || strings.Contains(all, "another folder") || !strings.Contains(all, "it is a link or no regular file") {
			t.Errorf("%d files: %s", n, all)
		}
	})
	t.Run("what is too large, too many or expands without end is refused", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		bomb := "a: &a [x, x, x, x, x, x, x, x, x]\n"
		for c := 'b'; c < 'k'; c++ {
			bomb += fmt.Sprintf("%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
		}
		write(t, dir, "bomb.prompt", "---\nname: bomb\nmodel: scripted/x\n"+bomb+"---\nx")
		write(t, dir, "config.yaml", "harness:\n  max_steps: *j\n  permissions:\n    bash: *j\n"+strings.ReplaceAll(bomb, "\n", "\n  "))
		write(t, dir, "bomb.workflow.yaml", bomb)
		write(t, dir, "huge.prompt", strings.Repeat("x", 1<<20+1))
		write(t, dir, "settings/agents.json", strings.Repeat("[", 100000))
		write(t, dir, "settings/escalation.json", `{"routes": 7}`)
		write(t, dir, "roles/mayor.toml", "[[[[")
		if n, all := both(t, dir); n != 0 || !strings.Contains(all, "more than 1048576 bytes") || len(all) > 1<<16 {
			t.Errorf("%d files: %.3000s", n, all)
		}
		many := t.TempDir()
		for i := range 2001 {
			write(t, many, fmt.Sprintf("%d.json", i), "{}")
		}
		root, err := os.OpenRoot(many)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		if _, err := adopt.Station(root); err == nil || !strings.Contains(err.Error(), "more than 2000 files") {
			t.Error(err)
		}
	})
	t.Run("no name leaves its folder, ends a line or ends an argument", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		evil := "x\nrules: []\n'; touch /tmp/x; '\x1b[2J"
		write(t, dir, "agents/"+strings.ReplaceAll(evil, "/", "-")+".prompt", "---\nname: x\nmodel: scripted/x\n---\nx")
		write(t, dir, "roles/..toml", "role = \"..\"")
		write(t, dir, "roles/WEB.toml", "role = \"WEB\"")
		write(t, dir, "hooks-base.json", `{"PreToolUse": [{"matcher": "Bash(x\"}\nrules: [{id: y}]\u2028*)", "hooks": [{"command": "gt tap guard"}]}]}`)
		write(t, dir, "config/messaging.json", `{"lists": {"a/../b": ["mayor"], "'; touch x": ["mayor"]}, "queues": {"..": {}, "-x": {}}}`)
		write(t, dir, "r/config.json", `{"type": "rig", "git_url": "--upload-pack='x'; \n"}`)
		write(t, dir, "r/settings/config.json", `{"merge_queue": {"enabled": true, "run_tests": true, "test_command": "a'b\nc"}}`)
		r := read(t, dir, adopt.Gastown)
		for at := range r.Files {
			if !filepath.IsLocal(at) || strings.ContainsAny(at, "\n\x1b'") {
				t.Errorf("file %q", at)
			}
		}
		policy, _, err := agentfile.ParsePolicy("policy.yaml", r.Files["policy.yaml"])
		if r.Files["policy.yaml"] != nil && (err != nil || len(policy.Rules) != 1 || !strings.HasPrefix(policy.Rules[0].Match.Glob, "x\"}\nrules")) {
			t.Errorf("%+v, %v", policy, err)
		}
		for _, c := range r.Commands {
			if got := adopt.Quoted(c); strings.ContainsAny(got, "\n\x1b") || strings.HasPrefix(c[3], "-") {
				t.Errorf("%s", got)
			}
		}
		if all := strings.Join(lines(r), "\n"); !strings.Contains(all, "refused queue r") {
			t.Error(all)
		}
		if got := adopt.Quoted([]string{"a", "", "it's", "$(x)"}); got != `a '' 'it'\''s' '$(x)'` {
			t.Error(got)
		}
	})
}
