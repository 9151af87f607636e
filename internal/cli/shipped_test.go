package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/scaffold/shipped"
)

func TestCatalog(t *testing.T) {
	type agent struct {
		Name, Description string
		Tools             []struct {
			Tool        string
			Allow, Deny []string
		}
		MaxSteps int `json:"max_steps"`
		Checks   []string
		Trial    struct {
			Task   string
			Checks []string
		}
		File string
	}
	t.Run("ID-11 ID-15 the catalogue lists the agents that ship with what each may use", func(t *testing.T) {
		home(t)
		s := inspan(t, "agent", "catalog", "--json")
		out := decode[struct{ Agents []agent }](t, s.out)
		if s.code != 0 || len(out.Agents) != len(shipped.Names()) {
			t.Fatalf("exit %d, %d agents\n%s", s.code, len(out.Agents), s.err)
		}
		for _, a := range out.Agents {
			if a.Description == "" || len(a.Tools) == 0 || a.MaxSteps == 0 || a.Trial.Task == "" || len(a.Trial.Checks) == 0 {
				t.Errorf("%+v", a)
			}
		}
		s = inspan(t, "agent", "catalog")
		for _, want := range []string{"reviewer", "read glob grep git_diff git_log write:review.md", "bash:asks", "inspan agent try NAME"} {
			if s.code != 0 || !strings.Contains(s.out, want) {
				t.Errorf("exit %d, no %q\n%s", s.code, want, s.out)
			}
		}
	})
	t.Run("ID-11 one agent is shown with all of its rules, and one that does not ship is not there", func(t *testing.T) {
		home(t)
		out := decode[agent](t, inspan(t, "agent", "catalog", "reviewer", "--json").out)
		last := out.Tools[len(out.Tools)-1]
		if last.Tool != "write" || strings.Join(last.Allow, " ") != "review.md" || strings.Join(last.Deny, " ") != "*" || !strings.Contains(out.File, "{{userInput}}") {
			t.Errorf("%+v", out)
		}
		s := inspan(t, "agent", "catalog", "reviewer")
		if s.code != 0 || !strings.Contains(s.out, "allowed: review.md; denied: *") || !strings.Contains(s.out, "there is a review") {
			t.Errorf("exit %d\n%s", s.code, s.out)
		}
		for _, args := range [][]string{{"agent", "catalog", "revewer"}, {"agent", "try", "revewer"}} {
			if s := inspan(t, args...); s.code != 5 || !strings.Contains(s.err, `did you mean "reviewer"?`) {
				t.Errorf("%v: exit %d %s", args, s.code, s.err)
			}
		}
	})
	t.Run("ID-15 CLI-4 an agent that ships is copied into a project, whole and under a name of its own", func(t *testing.T) {
		home(t)
		s := inspan(t, "agent", "init", "critic", "--from", "reviewer", "--model", "openai/gpt-6.1-terra")
		data, err := os.ReadFile(filepath.Join("agents", "critic.prompt"))
		if s.code != 0 || err != nil || !strings.Contains(s.out, "copy of  reviewer") {
			t.Fatalf("exit %d %v\n%s%s", s.code, err, s.out, s.err)
		}
		a, warnings, err := agentfile.Parse("critic", data)
		if err != nil || len(warnings) > 0 || a.Model != "openai/gpt-6.1-terra" || len(a.Guards) == 0 || a.Accept == nil || len(a.OutputSchema) == 0 {
			t.Errorf("%v %v %+v", err, warnings, a)
		}
		if s := inspan(t, "agents", "--dir", "agents"); s.code != 0 || !strings.Contains(s.out, "write:review.md") {
			t.Errorf("exit %d %s", s.code, s.out)
		}
		if s := inspan(t, "agent", "init", "--from", "security", "--model", "x/y"); s.code != 0 {
			t.Errorf("exit %d %s", s.code, s.err)
		}
		if _, err := os.Stat(filepath.Join("agents", "security.prompt")); err != nil {
			t.Error(err)
		}
		for _, args := range [][]string{{"--from", "nobody"}, {"--from", "coder", "--template", "sre"}, {"--from", "coder", "--max-steps", "3"}, {"critic", "--from", "reviewer"}} {
			if s := inspan(t, append([]string{"agent", "init", "--model", "x/y"}, args...)...); s.code != 2 || s.err == "" {
				t.Errorf("%v: exit %d %s", args, s.code, s.err)
			}
		}
	})
}

func TestShippedRules(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for call, want := range map[string]string{
		"tester write slug_test.sh": "allow", "tester write a/tests/x.py": "allow", "tester write latest.py": "deny", "tester write inspector.py": "deny",
		"refactorer write slug_test.sh": "deny", "refactorer write test_x.py": "deny", "refactorer write src/latest.py": "allow",
		"releaser edit CHANGELOG.md": "allow", "releaser edit web/package.json": "allow", "releaser edit src/conversion.py": "deny",
		"data write in/orders.csv": "deny", "data write answer.md": "allow", "docs write guide/a.md": "allow", "docs write a.go": "deny",
		"translator write app/locales/de.json": "allow", "translator write app/main.py": "deny", "dba write db/migrations/3.sql": "allow", "dba write app.py": "deny",
		"sre edit deploy/app.yaml": "allow", "sre edit app.py": "deny", "accessibility edit a/page.tsx": "allow", "accessibility edit a/server.ts": "deny",
	} {
		t.Run("ID-11 "+call+" is "+want, func(t *testing.T) {
			t.Parallel()
			part := strings.Fields(call)
			a, err := shipped.Find(part[0])
			if err != nil {
				t.Fatal(err)
			}
			input := map[string]string{"write": `","content":"x"}`, "edit": `","old_string":"x","new_string":"y"}`}[part[1]]
			file := text(t, filepath.Join(dir, strings.ReplaceAll(call, "/", "-"), a.Name+".prompt"), string(a.File))
			s := inspan(t, "guards", "test", part[1]+` {"path":"`+part[2]+input, "--agent", file)
			if first, _, _ := strings.Cut(s.out, "\n"); strings.Join(strings.Fields(first), " ") != "Verdict "+want {
				t.Errorf("exit %d %s%s", s.code, s.out, s.err)
			}
		})
	}
}

func TestTryAgent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	t.Run("ID-15 PLUS-10 an agent is seen at work without a key: its check fails before and passes afterwards", func(t *testing.T) {
		s := process(t, dir, []string{"MODEL="}, "agent", "try", "reviewer")
		if s.code != 0 || !strings.Contains(s.err, "Before, the check \"the review names the defect of the change\" fails") ||
			!strings.Contains(s.err, "Now it passes") || !strings.Contains(s.out, "verified by") {
			t.Errorf("exit %d\n%s%s", s.code, s.out, s.err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("it left %v in the folder, %v", left, err)
		}
	})
	t.Run("ID-15 PLUS-10 a model that does not do the work ends the command with 1", func(t *testing.T) {
		s := process(t, dir, []string{"MODEL="}, "agent", "try", "reviewer", "--model", "scripted/nobody")
		if s.code != 1 || strings.Contains(s.err, "Now it passes") {
			t.Errorf("exit %d\n%s%s", s.code, s.out, s.err)
		}
	})
}
