package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/tool"
)

// pen is a tool.Background that shows what it is given and notes what is started.
type pen struct {
	looks   []tool.BackgroundLook
	shown   int64
	started []tool.BackgroundCommand
	killed  []string
	waited  time.Duration
}

func (p *pen) Start(ctx context.Context, c tool.BackgroundCommand) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	p.started = append(p.started, c)
	return "bg-1", nil
}

func (p *pen) Look(ctx context.Context, handle string, _ int64, wait time.Duration) (tool.BackgroundLook, error) {
	p.waited = wait
	for _, l := range p.looks {
		if l.Handle == handle {
			return l, ctx.Err()
		}
	}
	return tool.BackgroundLook{}, tool.Fail(tool.Invalid, "list them", errors.New("no such handle"))
}

func (p *pen) List(ctx context.Context) ([]tool.BackgroundLook, error) { return p.looks, ctx.Err() }

func (p *pen) Kill(ctx context.Context, handle string) (tool.BackgroundLook, error) {
	p.killed = append(p.killed, handle)
	return p.Look(ctx, handle, 0, 0)
}

func (p *pen) Shown(string) int64 { return p.shown }

func TestBackground(t *testing.T) {
	t.Parallel()
	with := func(t *testing.T, p *pen) *bench {
		b := newBench(t)
		b.env.Background = p
		return b
	}
	t.Run("TOOL-10 a command for the background is started as bash runs it, and its handle is told", func(t *testing.T) {
		t.Parallel()
		p := &pen{}
		b := with(t, p)
		r := b.run("bash", args{"command": "make serve", "run_in_background": true, "timeout_ms": 3_600_000})
		if len(p.started) != 1 || p.started[0].Limit != time.Hour || strings.Join(p.started[0].Args, " ") != "bash -c make serve" || p.started[0].Dir != "" {
			t.Errorf("%+v", p.started)
		}
		if r.Background == nil || r.Background.Handle != "bg-1" || !r.Background.Started || !strings.Contains(r.Output, "bg-1") || !strings.Contains(r.Output, "1h0m0s") {
			t.Errorf("%+v", r)
		}
		b.put("sub/x", "")
		b.env.Dir = func() string { return "sub" }
		if b.run("bash", args{"command": "x", "run_in_background": true}); p.started[1].Dir != "sub" || p.started[1].Limit != tool.MaxBackground {
			t.Errorf("%+v", p.started[1])
		}
		b.env.Dir = func() string { return "gone" }
		contains(t, b.good("bash", args{"command": "x", "run_in_background": true}), "the folder gone is missing")
		for _, bad := range []args{{"command": "a\x00b", "run_in_background": true}, {"command": "sleep 1", "timeout_ms": 600_001}} {
			if _, err := b.try(t.Context(), "bash", bad); tool.ClassOf(err) != tool.Invalid || err == nil {
				t.Errorf("%v: %v, want class invalid", bad, err)
			}
		}
		timed, _ := b.tool("bash").(tool.Timed)
		if got := timed.TimeoutFor(json.RawMessage(`{"command":"x","run_in_background":true,"timeout_ms":3600000}`)); got != tool.DefaultTimeout {
			t.Errorf("the call may take %s", got)
		}
	})
	t.Run("TOOL-10 without the right to it nothing is started, and what to do is told", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		for name, a := range map[string]args{"bash": {"command": "x", "run_in_background": true}, "bash_output": {}, "kill_shell": {"shell_id": "bg-1"}} {
			var e *tool.Error
			if _, err := b.try(t.Context(), name, a); !errors.As(err, &e) || e.Class != tool.Denied || !strings.Contains(e.Hint, "kill_shell") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("TOOL-16 new output is shown with how the command is, and how far it was read", func(t *testing.T) {
		t.Parallel()
		code := 3
		p := &pen{shown: 10, looks: []tool.BackgroundLook{
			{Handle: "bg-1", Text: "make\n\x1b[2J", Output: []byte("a\xff\x00b ü\xc3"), From: 15, To: 25, Total: 25, Running: true, Took: 1234 * time.Millisecond},
			{Handle: "bg-2", Text: strings.Repeat("x", 500), End: "exit status 3", ExitCode: &code, From: 10, To: 10, Total: 10},
			{Handle: "bg-3", Lost: true, End: "it was lost"},
		}}
		b := with(t, p)
		r := b.run("bash_output", args{"bash_id": "bg-1", "wait_ms": 1500})
		if r.Output != "[bg-1 has been running for 1.2s, 25 bytes written: make<U+000A><U+001B>[2J]\n... 5 earlier bytes are no longer retained ...\na\uFFFD<U+0000>b ü" || r.Failed {
			t.Errorf("%q", r.Output)
		}
		if p.waited != 1500*time.Millisecond || r.Background == nil || r.Background.At != 24 || r.Background.Started {
			t.Errorf("waited %s, %+v: half a character is for the next time", p.waited, r.Background)
		}
		if got := b.good("bash_output", args{"bash_id": "bg-2"}); !strings.Contains(got, "exit status 3") || !strings.Contains(got, "(no new output)") || len(got) > 300 {
			t.Errorf("%q", got)
		}
		b.bad("bash_output", args{"bash_id": "bg-3"}, "bg-3 is no longer running")
		lines := strings.Split(b.good("bash_output", args{}), "\n")
		if len(lines) != 3 || !strings.Contains(lines[0], "15 bytes unread") || strings.Contains(lines[1], "unread") {
			t.Errorf("%q", lines)
		}
		if _, err := b.try(t.Context(), "bash_output", args{"bash_id": "bg-9"}); tool.ClassOf(err) != tool.Invalid {
			t.Errorf("err = %v", err)
		}
		if got := with(t, &pen{}).good("bash_output", args{}); !strings.Contains(got, "this step has started no") {
			t.Errorf("%q", got)
		}
	})
	t.Run("TOOL-10 a filter shows the lines that match, and counts the others", func(t *testing.T) {
		t.Parallel()
		b := with(t, &pen{looks: []tool.BackgroundLook{{Handle: "bg-1", Output: []byte("ok\nERROR a\nok\nERROR b"), To: 21, Running: true}}})
		if got := b.good("bash_output", args{"bash_id": "bg-1", "filter": "^ERR"}); !strings.HasSuffix(got, "\nERROR a\nERROR b\n(2 of 4 new lines match)") {
			t.Errorf("%q", got)
		}
		b.bad("bash_output", args{"bash_id": "bg-1", "filter": "("}, "invalid regular expression")
	})
	t.Run("TOOL-10 each of the three says which command it goes on with", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		for name, c := range map[string]struct {
			input, handle string
			ok            bool
		}{"bash": {`{"command":"x"}`, "", true}, "bash_output": {`{"bash_id":"bg-1"}`, "bg-1", true}, "kill_shell": {`{"shell_id":"bg-2"}`, "bg-2", true}} {
			goesOn, is := b.tool(name).(tool.Continuing)
			if !is {
				t.Fatalf("%s is not tool.Continuing", name)
			}
			if handle, ok := goesOn.Continues(json.RawMessage(c.input)); handle != c.handle || ok != c.ok {
				t.Errorf("%s: %q, %v", name, handle, ok)
			}
		}
		timed, _ := b.tool("bash_output").(tool.Timed)
		if got := timed.TimeoutFor(json.RawMessage(`{"wait_ms":60000}`)); got != time.Minute+tool.DefaultTimeout {
			t.Errorf("a call that waits for a minute may take %s", got)
		}
	})
}
