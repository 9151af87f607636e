package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// TestPrecheck: what is mistyped is refused before anything is published.
func TestPrecheck(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	text(t, filepath.Join(d.dir, "agents", "greeter.prompt"), strings.Replace(agent("greeter", "read"), "Do the task.", "Greet {{whom}}.", 1))
	text(t, filepath.Join(d.dir, "scripts", "greeter.yaml"), "turns:\n  - text: Hello.\n")
	d.up()
	t.Run("CLI-5 a value that no station takes is a wrong command line", func(t *testing.T) {
		for _, tc := range []struct {
			want string
			args words
		}{
			{"--autonomy 9", words{"--autonomy", "9"}}, {"--autonomy -1", words{"--autonomy", "-1"}}, {`timeout "soon"`, words{"--timeout", "soon"}}, {"max_steps is -1", words{"--max-steps", "-1"}},
			{"max_tool_calls is -2", words{"--max-tool-calls", "-2"}}, {"max_tokens is -3", words{"--budget-tokens", "-3"}}, {"max_usd is 0", words{"--budget-usd", "0"}},
			{"--session", words{"--session", "a.b"}}, {"--id", words{"--id", "a b"}}, {"--model", words{"--model", "gpt"}}, {"--branch", words{"--repo", "https://host/x", "--branch", "-x"}},
			{"--plan", words{"--plan", "/none.json"}}, {"--with", words{"--with", "x", "--empty"}},
		} {
			if s := d.do(append(words{"run", "reader", "look"}, tc.args...)...); s.code != 2 || !strings.Contains(s.err, tc.want) {
				t.Errorf("%v: exit %d %s", tc.args, s.code, s.err)
			}
		}
		d.want(2, words{"limit is 65536", "name the file"}, "run", "reader", strings.Repeat("x", events.MaxTask+1))
		d.want(2, words{"NUL"}, "run", "reader", "a\x00b")
	})
	t.Run("CLI-5 an agent that is not registered is refused with the nearest name", func(t *testing.T) {
		d.want(5, words{`agent "raeder": not found; did you mean "reader"?`}, "run", "raeder", "look")
		d.want(5, words{"registered: ", "greeter"}, "run", "zzz", "look", "--detach")
		plan := text(t, filepath.Join(t.TempDir(), "plan.json"), `{"steps":[{"id":"a","description":"x","agent":"raeder"}]}`)
		d.want(2, words{`plan step "a"`, "raeder"}, "run", "reader", "look", "--plan", plan)
	})
	t.Run("CLI-5 a variable of the agent's prompt needs a value, and a near one is named", func(t *testing.T) {
		d.want(2, words{"{{whom}}", "--var whom=VALUE"}, "run", "greeter", "now")
		d.want(2, words{"did you mean it with --var wohm?"}, "run", "greeter", "now", "--var", "wohm=you")
		d.want(0, words{"Hello."}, "run", "greeter", "now", "--var", "whom=you")
	})
	t.Run("CLI-5 none of it became a dead letter", func(t *testing.T) {
		if all := decode[[]client.Letter](t, d.want(0, nil, "dead", "list", "--json").out); len(all) != 0 {
			t.Errorf("%d dead letters: %+v", len(all), all)
		}
	})
	t.Run("CLI-5 a station that was started for a mistyped agent leaves no folder", func(t *testing.T) {
		state := t.TempDir()
		repo := filepath.Join(d.dir, "other")
		text(t, filepath.Join(repo, "go.mod"), "module other\n")
		s := process(t, repo, []string{"XDG_STATE_HOME=" + state}, "run", "raeder", "look", "--ephemeral", "--sandbox", "host", "--accept-lazy-fsync",
			"--agents", filepath.Join(d.dir, "agents"), "--scripts", filepath.Join(d.dir, "scripts"))
		if s.code != 5 || !strings.Contains(s.err, `did you mean "reader"?`) {
			t.Errorf("exit %d %s", s.code, s.err)
		}
		if left, err := os.ReadDir(filepath.Join(state, "inspan", "runs")); err == nil && len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

func TestStdin(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	task := func(t *testing.T, input string, args ...string) string {
		t.Helper()
		s := d.piped(input, append(append(words{"run", "reader"}, args...), "--json")...)
		if s.code != 0 {
			t.Fatalf("exit %d %s", s.code, s.err)
		}
		return first(t, s.out).Data.Task
	}
	t.Run("CLI-5 TRIG-2 the task is read from standard input where it is - or missing", func(t *testing.T) {
		for _, args := range []words{{"-"}, {}} {
			if got := task(t, "\ufefffix {{what}}\nplease\n", append(args, "--var", "what=it")...); got != "fix it\nplease" {
				t.Errorf("%v: %q", args, got)
			}
		}
	})
	t.Run("CLI-5 behind a task standard input is attached only where - asks for it, and is data", func(t *testing.T) {
		if got := task(t, "log of {{what}}\n", "read it", "-"); got != "read it\n\nFrom standard input:\n\nlog of {{what}}" {
			t.Errorf("%q", got)
		}
		if got := task(t, "log\n", "--task", "read it", "-"); got != "read it\n\nFrom standard input:\n\nlog" {
			t.Errorf("%q", got)
		}
		if got := task(t, "log\n", "read it"); got != "read it" {
			t.Errorf("%q", got)
		}
	})
	t.Run("CLI-5 what is empty, too large, no text, or wanted twice is refused", func(t *testing.T) {
		for _, tc := range []struct {
			input, want string
			args        words
		}{
			{" \n", "there is no task", nil}, {"", "there is no task", words{"-"}}, {strings.Repeat("x", events.MaxTask+1), "the limit of a task", words{"-"}},
			{"\x7fELF\x00", "not text", words{"-"}}, {"\xff\xfe", "not text", words{"look", "-"}}, {"x", "--plan -", words{"-", "--plan", "-"}}, {"x", "3 given", words{"a", "b"}},
		} {
			if s := d.piped(tc.input, append(words{"run", "reader"}, tc.args...)...); s.code != 2 || !strings.Contains(s.err, tc.want) {
				t.Errorf("%.10q %v: exit %d %s", tc.input, tc.args, s.code, s.err)
			}
		}
		if got := task(t, strings.Repeat("x", events.MaxTask)); len(got) != events.MaxTask {
			t.Errorf("at the limit: %d bytes", len(got))
		}
	})
}

func TestGateWithoutTerminal(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	t.Run("CLI-5 GATE-9 run ends with exit 3 at a gate and the commands that answer it, and the run waits", func(t *testing.T) {
		s := d.want(3, words{"waits for a person", "inspan reject left/g-", `--reason ...`, "--wait-gates"}, "run", "reader", "look", "--id", "left", "--autonomy", "1")
		_, rest, _ := strings.Cut(s.err, "  inspan approve ")
		gate, _, _ := strings.Cut(rest, " ")
		d.want(0, words{"is approved by anna"}, "approve", strings.TrimSpace(gate), "--by", "anna")
		d.want(0, words{"The note is read."}, "run", "reader", "look", "--id", "left", "--autonomy", "1")
	})
	t.Run("CLI-5 GATE-9 with --wait-gates it goes on when somebody answered", func(t *testing.T) {
		ended := make(chan said, 1) // one ending
		go func() {
			var out, errOut buffer
			code := mainWith(t.Context(), &out, &errOut, "run", "reader", "look", "--id", "stays", "--autonomy", "1", "--wait-gates", "--server", d.station.URL())
			ended <- said{code, out.String(), errOut.String()}
		}()
		for s := d.do("approve", "stays", "--by", "anna"); s.code != 0; s = d.do("approve", "stays", "--by", "anna") {
			pause(t)
		}
		if s := <-ended; s.code != 0 || !strings.Contains(s.out, "The note is read.") {
			t.Errorf("exit %d\n%s%s", s.code, s.out, s.err)
		}
		d.want(2, words{"--detach", "--wait-gates"}, "run", "reader", "look", "--wait-gates", "--detach")
	})
	t.Run("CLI-9 approve RUN lists the gates where several wait", func(t *testing.T) {
		plan := text(t, filepath.Join(t.TempDir(), "plan.json"), `{"steps":[{"id":"a","description":"first"},{"id":"b","description":"second"}]}`)
		d.want(0, nil, "run", "reader", "look", "--id", "both", "--autonomy", "1", "--plan", plan, "--detach")
		for strings.Count(d.do("gates").out, "both/g-") != 2 {
			pause(t)
		}
		d.want(2, words{"2 gates that wait; name one of them:\n  both/g-", "first", "second"}, "approve", "both")
		d.want(2, words{"2 gates"}, "reject", "both")
	})
}
