//go:build slow

package pty_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/runtime"
	"github.com/inspan/inspan/pkg/events"
)

// TestRealScreen drives the screen of Claude Code. Its model is a mock of the provider, and its sandbox is none.
func TestRealScreen(t *testing.T) {
	dir := os.Getenv("INSPAN_TEST_RUNTIMES")
	if dir == "" {
		t.Skip("NOT TESTED: INSPAN_TEST_RUNTIMES names no folder of the programs: use make runtimes")
	}
	modules := filepath.Join(dir, "node_modules")
	s := newStage(t, "")
	s.runtime = claude(filepath.Join(modules, "@anthropic-ai", "claude-code-linux-x64", "claude"), serve(t, filepath.Join(modules, "@copilotkit", "aimock", "dist", "cli.js")))
	t.Run("ID-8 PLUS-12c CONT-4 Claude Code works on a prompt at its screen, is killed, and goes on in its session", func(t *testing.T) {
		c := s.start("")
		r, err := c.Prompt(t.Context(), "write the poem\nin two lines, please")
		if err != nil || r.Failed || !strings.Contains(r.Text, "A short poem about oxen.") {
			t.Fatalf("got %+v, %v", r, err)
		}
		list, err := s.sandbox.Processes(t.Context())
		if err != nil || len(list) == 0 {
			t.Fatalf("got %v, %v", list, err)
		}
		for _, p := range list {
			_ = s.sandbox.Kill(t.Context(), p.PID) // one of them ends with another
		}
		if _, err := c.Prompt(t.Context(), "write the poem"); !errors.Is(err, runtime.ErrEnded) {
			t.Errorf("got %v", err)
		}
		r, err = s.start(session).Prompt(t.Context(), "write the poem again")
		if err != nil || r.Failed || strings.Count(r.Text, "A short poem about oxen.") != 2 {
			t.Errorf("got %+v, %v", r, err)
		}
		t.Logf("its screen:\n%s", r.Text)
	})
}

// claude is the interactive program. It shows the mark of a turn by a hook.
func claude(program, url string) events.Runtime {
	const settings = `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"printf '{\"systemMessage\":\"inspan %s\"}' $INSPAN_TURN"}]}]}}`
	return events.Runtime{Name: "claude-screen", Driver: events.DriverPTY, Gate: events.RuntimeAsksNot, Resumes: true,
		Command: []string{"sh", "-c",
			`[ -f ~/.claude.json ] || printf '{"hasCompletedOnboarding":true,"theme":"dark"}' > ~/.claude.json; exec "$@"`, "sh",
			program, "--setting-sources", "", "--strict-mcp-config", "--permission-mode", "acceptEdits", "--settings", settings},
		Env: map[string]string{"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1",
			"IS_SANDBOX": "1", "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "no-key-of-anyone"},
		Terminal: &events.RuntimeTerminal{Ready: `^[\s│┃|]*❯\s*(Try .*)?$`, End: `inspan {turn}`, Echo: `Pasted text`,
			New: []string{"--session-id", events.TranscriptSession}, Resume: []string{"--resume", events.TranscriptSession},
			Questions: []events.RuntimeQuestion{
				{Match: "use this API key", Action: events.QuestionAnswer, Yes: "\x1b[A\r"},
				{Match: "Yes, I trust this folder", Action: events.QuestionAnswer, Yes: "\x1b[B\r"}}}}
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// serve starts the mock and returns its address.
func serve(t *testing.T, program string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fixtures.json")
	if err := os.WriteFile(file, []byte(`{"fixtures":[{"match":{"userMessage":"write the poem"},"response":{"content":"A short poem about oxen."}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", program, "-p", "0", "-h", "127.0.0.1", "-f", file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if url := address.FindString(lines.Text()); url != "" {
			go func() { _, _ = io.Copy(io.Discard, out) }() // until the mock is killed
			return url
		}
	}
	t.Fatal("the mock has no address", lines.Err())
	return ""
}
