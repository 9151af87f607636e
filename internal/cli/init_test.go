package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
)

func TestInit(t *testing.T) {
	t.Run("CLI-1 init writes the defaults and makes the workspace, keeps what is there, and may be told to write again", func(t *testing.T) {
		h, _ := home(t)
		path, folder := filepath.Join(h, ".config", "inspan", "config.yaml"), filepath.Join(h, ".config", "inspan", "workspace")
		s := inspan(t, "init")
		if s.code != 0 || !strings.Contains(s.out, "made      "+path) || !strings.Contains(s.out, "made      "+folder) || !strings.Contains(s.out, "inspan agent init NAME") {
			t.Fatalf("exit %d\n%s%s", s.code, s.out, s.err)
		}
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			t.Error(err)
		}
		// What was written is what is built in anyway, but for the place of the workspaces.
		type row struct {
			Key, Value, Source string
			Overridden         []struct{ Value string }
		}
		seen := 0
		for _, r := range decode[[]row](t, inspan(t, "config", "explain", "--changed", "--json").out) {
			if r.Source != "system" {
				continue
			}
			seen++
			if want := r.Overridden[0].Value; r.Value != want && r.Key != "harness.workspace.path" && r.Value+"0s" != want {
				t.Errorf("%s is written as %q, built in is %q", r.Key, r.Value, want)
			}
			if r.Key == "harness.workspace.path" && r.Value != folder {
				t.Errorf("the workspace is %q, want %q", r.Value, folder)
			}
		}
		if seen < 8 {
			t.Errorf("%d settings are written", seen)
		}
		text(t, path, "station: mine\n")
		if s := inspan(t, "init"); s.code != 0 || !strings.Contains(s.out, "kept      "+path) || !strings.Contains(s.out, "kept      "+folder) {
			t.Errorf("exit %d\n%s%s", s.code, s.out, s.err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != "station: mine\n" {
			t.Errorf("the file was changed: %s %v", b, err)
		}
		if s := inspan(t, "init", "--force", "--json"); s.code != 0 || decode[map[string]struct{ State string }](t, s.out)["config"].State != "replaced" {
			t.Errorf("exit %d\n%s%s", s.code, s.out, s.err)
		}
	})
	t.Run("CLI-1 init fixes nothing that is broken, unless it may write again", func(t *testing.T) {
		h, _ := home(t)
		path := text(t, filepath.Join(h, ".config", "inspan", "config.yaml"), "nonsense: 1\n")
		if s := inspan(t, "init", "--force"); s.code != 0 {
			t.Errorf("exit %d %s", s.code, s.err)
		}
		if b, err := os.ReadFile(path); err != nil || !strings.Contains(string(b), "max_steps: 50") {
			t.Errorf("%s %v", b, err)
		}
	})
	t.Run("CLI-1 CLI-2 init finds the project, and its agent may test and build it and asks before a push; nothing is written over unasked", func(t *testing.T) {
		home(t)
		text(t, "go.mod", "module x\n")
		text(t, "package.json", `{"scripts":{"test":"rm -rf / # evil"}}`)
		type report struct {
			Agent   *struct{ Path, State string }
			Project struct {
				Parts []struct{ Language, Test string }
			}
		}
		s := inspan(t, "init", "--json")
		out := decode[report](t, s.out)
		if s.code != 0 || out.Agent == nil || out.Agent.State != "made" || len(out.Project.Parts) != 2 || out.Project.Parts[0].Test != "go test ./..." {
			t.Fatalf("exit %d %s%s", s.code, s.out, s.err)
		}
		b, err := os.ReadFile("agents/coder.prompt")
		if err != nil || strings.Contains(string(b), "evil") || !strings.Contains(string(b), "tested with `go test ./...`") {
			t.Errorf("%v\n%s", err, b)
		}
		for call, verdict := range map[string]string{"go test ./...": "allow", "go test -run X ./a": "allow", "npm run test": "allow", "go build ./...": "allow",
			"git push origin main": "ask", "curl https://example.com": "ask", "cd x && git -C . push": "ask", "git push --force": "deny"} {
			got := inspan(t, "guards", "test", call, "--agent", "agents/coder.prompt", "--json")
			if !strings.Contains(got.out, `"verdict":"`+verdict) && !strings.Contains(got.out, `"verdict": "`+verdict) {
				t.Errorf("%s: want %s: %s%s", call, verdict, got.out, got.err)
			}
		}
		text(t, "agents/coder.prompt", "mine")
		if s := inspan(t, "init"); s.code != 0 || !strings.Contains(s.out, "found     Go (go.mod), tested with go test ./...") || !strings.Contains(s.out, "kept      agents/coder.prompt") {
			t.Errorf("exit %d %s%s", s.code, s.out, s.err)
		}
		if b, err := os.ReadFile("agents/coder.prompt"); err != nil || string(b) != "mine" {
			t.Errorf("%v %s", err, b)
		}
		if s := inspan(t, "init", "--force", "--json"); decode[report](t, s.out).Agent.State != "replaced" {
			t.Errorf("%s%s", s.out, s.err)
		}
	})
	t.Run("CLI-2 init without a project, or beside agents of a person, writes no agent; with --project it does", func(t *testing.T) {
		home(t)
		if s := inspan(t, "init"); s.code != 0 || strings.Contains(s.out, "coder") {
			t.Errorf("exit %d %s", s.code, s.out)
		}
		text(t, "go.mod", "module x\n")
		text(t, "agents/mine.prompt", "mine")
		if s := inspan(t, "init"); s.code != 0 || strings.Contains(s.out, "coder.prompt") {
			t.Errorf("exit %d %s", s.code, s.out)
		}
		if s := inspan(t, "init", "--project"); s.code != 0 || !strings.Contains(s.out, "made      agents/coder.prompt") && !strings.Contains(s.out, "/agents/coder.prompt") {
			t.Errorf("exit %d %s%s", s.code, s.out, s.err)
		}
	})
	t.Run("CLI-1 init --project is read in the project and below it", func(t *testing.T) {
		_, project := home(t)
		if s := inspan(t, "init", "--project"); s.code != 0 {
			t.Fatalf("exit %d %s", s.code, s.err)
		}
		if err := os.Mkdir("below", 0o755); err != nil {
			t.Fatal(err)
		}
		t.Chdir("below")
		s := inspan(t, "config", "explain", "agents")
		if s.code != 0 || !strings.Contains(s.out, filepath.Join(project, "agents")) || !strings.Contains(s.out, "(project)") {
			t.Errorf("exit %d %s%s", s.code, s.out, s.err)
		}
	})
}

// exercises call each tool of a template once.
var exercises = map[string]string{
	"coding": `[{name: write, input: {path: a.txt, content: one}}, {name: read, input: {path: a.txt}}, {name: edit, input: {path: a.txt, old_string: one, new_string: two}}, {name: bash, input: {command: "cat a.txt"}}, {name: glob, input: {pattern: "*"}}, {name: grep, input: {pattern: two}},
      {name: apply_patch, input: {patch: "*** Begin Patch\n*** Add File: b.txt\n+b\n*** End Patch\n"}}, {name: bash, input: {command: "git init -q ."}}] then [{name: git_status, input: {}}, {name: git_commit, input: {message: first}}] then [
      {name: git_branch, input: {task: first}}, {name: git_diff, input: {}}, {name: git_log, input: {}}, {name: bash_output, input: {}}, {name: secret_scan, input: {}}, {name: artifact_save, input: {path: a.txt}}]`,
	"sre":      `[{name: bash, input: {command: "echo log line > app.log"}}, {name: read, input: {path: app.log}}, {name: grep, input: {pattern: line}}, {name: prometheus, input: {query: up}}]`,
	"security": `[{name: glob, input: {pattern: "**"}}, {name: grep, input: {pattern: password}}, {name: secret_scan, input: {}}, {name: read, input: {path: none.txt}}]`,
	"data":     `[{name: write, input: {path: sum.sql, content: "select 40+2;"}}, {name: read, input: {path: sum.sql}}, {name: bash, input: {command: "wc -l < sum.sql"}}]`,
}

func TestAgentInit(t *testing.T) {
	metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"up"},"value":[1,"1"]}]}}`)
	}))
	t.Cleanup(metrics.Close)
	for name, calls := range exercises {
		t.Run("CLI-2 CLI-3 CLI-4 TOOL-20 an agent of the template "+name+" runs, and each of its tools works", func(t *testing.T) {
			home(t)
			t.Setenv("INSPAN_PROMETHEUS_URL", metrics.URL)
			s := inspan(t, "agent", "init", "mine", "--template", name, "--model", "scripted/mine", "--sandbox", "host", "--max-steps", "9")
			if s.code != 0 || !strings.Contains(s.out, `inspan run mine "what to do"`) || !strings.Contains(s.out, "agents/mine.prompt") {
				t.Fatalf("exit %d\n%s%s", s.code, s.out, s.err)
			}
			script, turns := "turns:\n", strings.Split(calls, " then ") // those of one turn run at the same time
			for i, list := range turns {
				script += fmt.Sprintf("  - when: {turn: %d}\n    text: I try them.\n    calls: %s\n", i+1, list)
			}
			text(t, "scripts/mine.yaml", script+fmt.Sprintf("  - when: {turn: %d}\n    text: All tried.\n", len(turns)+1))
			run := inspan(t, "run", "mine", "try all", "--trust", "--ephemeral", "--json", "--accept-lazy-fsync")
			if run.code != 0 {
				t.Fatalf("exit %d\n%s%s", run.code, run.out, run.err)
			}
			want, finished := strings.Count(calls, "{name:"), strings.Count(run.out, ".call.finished.v1")
			if finished != want || strings.Contains(run.out, ".call.refused.v1") || strings.Contains(run.out, ".call.failed.v1") {
				t.Errorf("%d of %d calls finished:\n%s", finished, want, run.out)
			}
			if !strings.Contains(run.out, `"max_steps":9`) {
				t.Error("--max-steps did not reach the run")
			}
		})
	}
	t.Run("CLI-2 CLI-3 without a terminal flags and defaults decide, and nothing is asked", func(t *testing.T) {
		home(t)
		s := inspan(t, "agent", "init", "plain", "--json")
		if s.code != 0 {
			t.Fatalf("exit %d %s", s.code, s.err)
		}
		out := decode[struct {
			Template string
			Tools    []string
			Next     []string
			Needs    []struct{ What string }
		}](t, s.out)
		if out.Template != "coding" || len(out.Tools) != 17 || out.Next[0] != `inspan run plain "what to do"` || len(out.Needs) < 3 {
			t.Errorf("%+v", out)
		}
		b, err := os.ReadFile("agents/plain.prompt")
		if err != nil {
			t.Fatal(err)
		}
		if a, _, err := agentfile.Parse("plain", b); err != nil || !strings.Contains(a.Model, "/") {
			t.Errorf("%v %+v", err, a)
		}
	})
	t.Run("CLI-3 the model of a key that is set is taken", func(t *testing.T) {
		home(t)
		t.Setenv("ANTHROPIC_API_KEY", "")
		t.Setenv("GEMINI_API_KEY", "canary-key")
		s := inspan(t, "agent", "init", "g")
		if s.code != 0 || !strings.Contains(s.out, "gemini/") || strings.Contains(s.out, "canary") {
			t.Errorf("exit %d %s", s.code, s.out)
		}
	})
	t.Run("CLI-2 what is missing is told: the key, a program, a sandbox", func(t *testing.T) {
		home(t)
		for _, v := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY_FILE", "INSPAN_PROMETHEUS_URL"} {
			t.Setenv(v, "")
			if err := os.Unsetenv(v); err != nil {
				t.Fatal(err)
			}
		}
		s := inspan(t, "agent", "init", "s", "--template", "sre", "--model", "anthropic/x", "--sandbox", "docker", "--image", "i:1")
		for _, want := range []string{"export ANTHROPIC_API_KEY=", "INSPAN_PROMETHEUS_URL is not set", "sandbox docker", "does not work"} {
			if s.code != 0 || !strings.Contains(s.out, want) {
				t.Errorf("exit %d, %q is not in\n%s%s", s.code, want, s.out, s.err)
			}
		}
		if strings.Contains(s.err, "no effect yet") {
			t.Errorf("%s", s.err)
		}
	})
	t.Run("CLI-2 a file that is there is kept, and a wrong wish is named", func(t *testing.T) {
		home(t)
		text(t, "agents/old.prompt", "mine")
		for _, tc := range []struct {
			args words
			want string
		}{
			{words{"old"}, "--force"}, {words{}, "which agent?"}, {words{"new", "--template", "codign"}, `did you mean "coding"?`}, {words{"a.b"}, "a.b"},
			{words{"new", "--model", "nothing"}, "provider/name"}, {words{"new", "--max-steps", "-1"}, "--max-steps"}, {words{"new", "--sandbox", "prison"}, "sandbox.mode"},
		} {
			if s := inspan(t, append(words{"agent", "init"}, tc.args...)...); s.code != 2 || !strings.Contains(s.err, tc.want) {
				t.Errorf("%v: exit %d %s", tc.args, s.code, s.err)
			}
		}
		if b, err := os.ReadFile("agents/old.prompt"); err != nil || string(b) != "mine" {
			t.Errorf("%s %v", b, err)
		}
		if s := inspan(t, "agent", "init", "old", "--force"); s.code != 0 {
			t.Errorf("%s", s.err)
		}
	})
}

func TestAgentImport(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	from, dir := filepath.Join(d.dir, "r.md"), filepath.Join(d.dir, "agents")
	if err := os.WriteFile(from, []byte("---\nname: looker\ndescription: Looks\ntools: Read, WebFetch\nmodel: opus\n---\nYou look.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("ECO-8 an agent of Claude Code is taken over, and what was left out is told", func(t *testing.T) {
		d.want(2, []string{"--model provider/name"}, "agent", "import", from, "--dir", dir)
		d.want(0, []string{"looker.prompt", `"WebFetch"`, "inspan run looker"}, "agent", "import", from, "--dir", dir, "--model", "scripted/reader")
		d.want(2, []string{"--force"}, "agent", "import", from, "--dir", dir, "--model", "scripted/reader")
		d.want(2, []string{"no such file"}, "agent", "import", filepath.Join(d.dir, "nothing.md"))
		d.up()
		d.want(0, []string{"The note is read."}, "run", "looker", "read it")
	})
}
