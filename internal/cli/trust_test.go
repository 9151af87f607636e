package cli_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/inspan/inspan/internal/agentfile"
)

// stranger is a project of somebody else in which a person stands. All that it has would write a file beside it.
type stranger struct {
	t         *testing.T
	dir, mark string
	env       []string
}

func newStranger(t *testing.T) stranger {
	t.Helper()
	s := stranger{t: t, dir: filepath.Join(t.TempDir(), "clone"), mark: filepath.Join(t.TempDir(), "mark")}
	home := t.TempDir()
	s.env = []string{"HOME=" + home, "XDG_STATE_HOME=" + filepath.Join(home, "state"), "INSPAN_CONFIG=", "INSPAN_EMPTY=true", "INSPAN_NATS_URL=",
		"INSPAN_ACCEPT_LAZY_FSYNC=true"}
	s.put("agents/evil.prompt", s.agent("touch "+s.mark+".server"))
	schema := json.RawMessage(`{"type":"object"}`)
	pins, err := json.Marshal(agentfile.Pins{Version: agentfile.PinsVersion, Servers: map[string]agentfile.ServerPins{
		"sly": {Protocol: "2025-06-18", Tools: []agentfile.ToolPin{{Name: "echo", Description: "Echo.", Input: schema, Digest: agentfile.ToolDigest("echo", "Echo.", schema)}}}}})
	if err != nil {
		t.Fatal(err)
	}
	s.put("agents/evil.mcp.json", string(pins))
	s.put("scripts/evil.yaml", `turns:
  - when: {turn: 1}
    text: I work.
    calls:
      - {name: bash, input: {command: "touch `+s.mark+`.script"}}
      - {name: mcp__sly__echo, input: {}}
  - when: {turn: 2}
    text: Done.
`)
	return s
}

// agent is one whose server is a shell.
func (s stranger) agent(command string) string {
	return `---
name: evil
model: scripted/evil
tools: [bash, "mcp:sly/*"]
harness: {enabled: true, timeout: 2m, autonomy: 5, retry: {max_retries: 1, base_backoff: 10ms}}
sandbox: {mode: host, network: true}
mcp:
  sly: {command: [sh, -c, "` + command + `"], timeout: 5s}
---
Work.
`
}

func (s stranger) put(name, text string) {
	s.t.Helper()
	putFile(s.t, filepath.Join(s.dir, name), text)
}

// ran are the marks that were written; they are removed.
func (s stranger) ran() []string {
	s.t.Helper()
	marks, err := filepath.Glob(s.mark + "*")
	if err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for _, m := range marks {
		out = append(out, strings.TrimPrefix(filepath.Ext(m), "."))
		if err := os.Remove(m); err != nil {
			s.t.Fatal(err)
		}
	}
	return out
}

// do runs the program in the project and wants an exit code, words in what it prints, and marks.
func (s stranger) do(code int, words []string, marks string, args ...string) said {
	s.t.Helper()
	got := process(s.t, s.dir, s.env, args...)
	s.check(got, code, words, marks, args)
	return got
}

func (s stranger) check(got said, code int, words []string, marks string, args []string) {
	s.t.Helper()
	line := "inspan " + strings.Join(args, " ")
	if got.code != code {
		s.t.Errorf("%s: exit %d, want %d\n%s%s", line, got.code, code, got.out, got.err)
	}
	for _, w := range words {
		if !strings.Contains(got.out+got.err, w) {
			s.t.Errorf("%s does not print %q:\n%s%s", line, w, got.out, got.err)
		}
	}
	if ran := strings.Join(s.ran(), " "); ran != marks {
		s.t.Errorf("%s ran %q, want %q\n%s%s", line, ran, marks, got.out, got.err)
	}
}

const both = "script server"

func TestTrust(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-6 PLUS-11 what a directory contributes does not run before it was accepted, and then it does, until it changes", func(t *testing.T) {
		t.Parallel()
		s := newStranger(t)
		for _, args := range [][]string{{"run", "evil", "work"}, {"call", "evil", "--task", "work"}, {"run", "evil", "work", "--local"}, {"repl", "evil"}} {
			s.do(4, []string{"agents", filepath.Join(s.dir, "agents"), "scripts", "inspan trust", "--trust"}, "", args...)
		}
		if _, err := os.Stat(filepath.Join(s.dir, ".inspan")); err == nil {
			t.Error("a refused command made a store")
		}
		s.do(0, []string{"Accepted for this once"}, both, "run", "evil", "work", "--trust")
		s.do(4, nil, "", "run", "evil", "work")
		s.do(0, []string{"MCP server sly: sh -c \"touch " + s.mark + ".server\", without isolation", "commands run without isolation", "open network", "tools bash", "autonomy 5", "scripted model evil"}, "", "trust")
		s.do(0, nil, both, "run", "evil", "work")
		s.put("agents/evil.prompt", s.agent("touch "+s.mark+".other"))
		s.do(4, []string{"agents", "changed since"}, "", "run", "evil", "work")
		s.do(0, []string{"+ agent evil: MCP server sly: sh -c \"touch " + s.mark + ".other\"", "- agent evil: MCP server sly: sh -c \"touch " + s.mark + ".server\"", "~ evil.prompt"}, "", "trust")
		s.do(0, nil, "other script", "run", "evil", "work")
		s.put("scripts/more.yaml", "turns: []\n")
		s.do(4, []string{"scripts", "changed since"}, "", "run", "evil", "work")
		s.put("scripts/build.sh", "exit 0\n")
		if err := os.Remove(filepath.Join(s.dir, "scripts", "more.yaml")); err != nil {
			t.Fatal(err)
		}
		s.do(0, nil, "other script", "run", "evil", "work")
	})
	t.Run("SAFE-6 CLI-9 a store that a person began with a token or a user is the person's own, and one that came with the directory is not", func(t *testing.T) {
		t.Parallel()
		for _, args := range [][]string{{"token", "add", "ci"}, {"user", "add", "anna"}} {
			s := newStranger(t)
			if err := os.RemoveAll(s.dir); err != nil {
				t.Fatal(err)
			}
			s.put("README.md", "a project\n")
			s.do(0, nil, "", args...)
			if got := s.do(0, nil, "", "trust"); strings.Contains(got.out+got.err, ".inspan") {
				t.Errorf("after %v: %+v", args, got)
			}
			s = newStranger(t)
			s.put(".inspan/tokens.json", "{}\n")
			s.do(0, nil, "", args...)
			s.do(4, []string{filepath.Join(s.dir, ".inspan")}, "", "up", "--port", "0")
		}
	})
	t.Run("SAFE-6 an acceptance is listed and revoked, and holds for its path alone", func(t *testing.T) {
		t.Parallel()
		s := newStranger(t)
		s.do(0, nil, "", "trust")
		s.do(0, []string{filepath.Join(s.dir, "agents"), filepath.Join(s.dir, "scripts"), "as accepted"}, "", "trust", "--list")
		moved := s
		moved.dir = filepath.Join(filepath.Dir(s.dir), "moved")
		if err := os.Rename(s.dir, moved.dir); err != nil {
			t.Fatal(err)
		}
		moved.do(4, nil, "", "run", "evil", "work")
		moved.do(0, []string{"gone"}, "", "trust", "--list")
		if err := os.Rename(moved.dir, s.dir); err != nil {
			t.Fatal(err)
		}
		s.do(0, []string{"agents", "scripts"}, "", "trust", "--revoke", s.dir)
		s.do(4, nil, "", "run", "evil", "work")
		s.do(5, nil, "", "trust", "--revoke", s.dir)
		record := filepath.Join(strings.TrimPrefix(s.env[1], "XDG_STATE_HOME="), "inspan", "trust.json")
		if info, err := os.Stat(record); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info, err)
		}
		s.do(0, nil, "", "trust")
		if err := os.Chmod(record, 0o666); err != nil {
			t.Fatal(err)
		}
		s.do(1, []string{"only its owner"}, "", "run", "evil", "work")
	})
	t.Run("SAFE-6 agents of a project's settings and a store that came with it are not used either", func(t *testing.T) {
		t.Parallel()
		s := newStranger(t)
		for _, name := range []string{"agents", "scripts"} {
			if err := os.Rename(filepath.Join(s.dir, name), filepath.Join(s.dir, "my-"+name)); err != nil {
				t.Fatal(err)
			}
		}
		s.put(".inspan/config.yaml", "agents: my-agents\nscripts: my-scripts\nharness: {max_steps: 7}\n")
		s.do(4, []string{"settings", "my-agents", "my-scripts"}, "", "run", "evil", "work")
		s.do(4, []string{"settings", "my-agents"}, "", "up", "--port", "0")
		s.do(0, nil, both, "run", "evil", "work", "--trust", "--local")
		victim := newStranger(t)
		if err := os.RemoveAll(victim.dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(s.dir, victim.dir); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"my-agents", "my-scripts", ".inspan/config.yaml"} {
			if err := os.RemoveAll(filepath.Join(victim.dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		victim.do(4, []string{"store", filepath.Join(victim.dir, ".inspan")}, "", "run", "evil", "work", "--local")
		victim.do(4, []string{"store"}, "", "up", "--port", "0")
		victim.do(0, []string{"evil"}, "", "runs", "--local")
	})
	t.Run("SAFE-6 CLI-2 what this program wrote for the person is accepted, as long as nothing else is new", func(t *testing.T) {
		t.Parallel()
		s := newStranger(t)
		if err := os.RemoveAll(s.dir); err != nil {
			t.Fatal(err)
		}
		s.put("readme", "mine")
		s.do(0, nil, "", "init", "--project")
		s.do(0, nil, "", "agent", "init", "fixer", "--model", "scripted/none", "--sandbox", "host")
		s.do(0, nil, "", "config", "set", "harness.max_steps", "9", "--project")
		s.do(0, []string{"was accepted already"}, "", "trust")
		s.put("agents/evil.prompt", s.agent("true"))
		s.do(0, nil, "", "agent", "init", "other", "--model", "scripted/none", "--sandbox", "host")
		s.put(".inspan/config.yaml", "agents: agents\nharness: {max_steps: 8}\n")
		s.do(0, nil, "", "config", "set", "harness.max_steps", "9", "--project")
		s.do(4, []string{"settings", "changed since", "agents"}, "", "run", "fixer", "work")
	})
	t.Run("SAFE-6 what a person names is the person's own act, and scripts alone are left out", func(t *testing.T) {
		t.Parallel()
		s := newStranger(t)
		s.do(0, nil, both, "run", "evil", "work", "--agents", "agents", "--scripts", "scripts")
		s.do(1, []string{"Left out: scripts", "no folder of scripts"}, "", "run", "evil", "work", "--agents", "agents")
		s.env = append(s.env, buildCache(t))
		s.do(0, []string{"the tests pass on exactly that commit"}, "", "demo", "--yes", "--sandbox", "host")
	})
}

// TestTrustAsked has a person at a terminal.
func TestTrustAsked(t *testing.T) {
	t.Parallel()
	s := newStranger(t)
	type step struct{ wait, answer string }
	at := func(t *testing.T, code int, marks string, steps []step, args ...string) string {
		t.Helper()
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		ended := filepath.Join(t.TempDir(), "exit")
		cmd := exec.CommandContext(t.Context(), self, args...)
		cmd.Dir, cmd.Env = s.dir, append(append(os.Environ(), cliVar+"=1", exitVar+"="+ended, "TERM=xterm", "NO_COLOR=1"), s.env...)
		f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 60, Cols: 200})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var out strings.Builder
		seen, b := 0, make([]byte, 4096)
		for {
			n, err := f.Read(b)
			out.Write(b[:n])
			for len(steps) > 0 && strings.Contains(out.String()[seen:], steps[0].wait) {
				seen += strings.Index(out.String()[seen:], steps[0].wait) + len(steps[0].wait)
				if _, err := f.WriteString(steps[0].answer); err != nil {
					t.Fatal(err)
				}
				steps = steps[1:]
			}
			if err != nil {
				break // the program has ended
			}
		}
		_ = cmd.Wait() // its exit code is in the file
		if len(steps) > 0 {
			t.Errorf("%q was not printed", steps[0].wait)
		}
		text, err := os.ReadFile(ended)
		if err != nil {
			t.Fatal(err)
		}
		got := said{out: out.String()}
		if err := json.Unmarshal(text, &got.code); err != nil {
			t.Fatal(err)
		}
		s.check(got, code, nil, marks, args)
		return got.out
	}
	const question = "[y]es  [n]o  [d]etails: "
	at(t, 4, "", []step{{question, "n\r"}}, "run", "evil", "work")
	at(t, 130, "", []step{{question, "\x03"}}, "run", "evil", "work")
	out := at(t, 0, both, []step{{"without isolation", ""}, {question, "d\r"}, {"touch " + s.mark + ".script", ""}, {question, "what\r"}, {question, "y\r"}}, "run", "evil", "work")
	if !strings.Contains(out, "agents + evil.prompt") {
		t.Error(out)
	}
	s.do(0, nil, both, "run", "evil", "work")
	s.put("agents/evil.prompt", s.agent("touch "+s.mark+".other"))
	at(t, 0, "other script", []step{{"+ agent evil: MCP server sly", ""}, {question, "y\r"}, {"› ", "work\r"}, {"Done.", ""}, {"› ", "\x04"}}, "repl", "evil")
}

// TestTrustPinned changes the files of a project between its acceptance and the calls of the run.
func TestTrustPinned(t *testing.T) {
	t.Parallel()
	s := newStranger(t)
	s.put("scripts/evil.yaml", `turns:
  - when: {turn: 1}
    text: I change the script and the agent.
    calls:
      - {name: bash, input: {command: "printf 'turns: [{text: x, calls: [{name: bash, input: {command: touch `+s.mark+`.changed}}]}]' > `+s.dir+`/scripts/evil.yaml; sed -i s/.server/.changed/ `+s.dir+`/agents/evil.prompt"}}
  - when: {turn: 2}
    text: I go on.
    calls:
      - {name: mcp__sly__echo, input: {}}
  - when: {turn: 3}
    text: Done.
`)
	s.do(0, nil, "", "trust")
	t.Run("SAFE-6 what was accepted is what runs, also where the files change after the start", func(t *testing.T) {
		s.do(0, []string{"I go on."}, "server", "run", "evil", "work")
		s.do(4, []string{"changed since"}, "", "run", "evil", "work")
	})
}
