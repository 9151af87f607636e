package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// stateOf is a run with one gate.
func stateOf(gate run.GateStatus) run.State {
	return run.State{HarnessID: "run-1", AgentName: "fixer", Status: events.Running,
		Created: &events.RunCreatedData{By: "anna", Project: "pay", Session: "day"},
		Gates:   []*run.Gate{{ID: "g-1", Status: gate}}}
}

func TestOf(t *testing.T) {
	t.Parallel()
	call := &events.GateOpenedData{Gate: "g-1", Step: "s", Call: "c-1", Description: "bash: curl -H 'token: s3cret'",
		Proposal: []byte(`{"tool":"bash","input":{"command":"curl -H 'token: s3cret'"}}`)}
	for name, c := range map[string]struct {
		state run.State
		p     events.Payload
		kind  Kind
		text  string
	}{
		"PLUS-15 a gate names the tool and none of its arguments": {stateOf(run.GatePending), call, Gate, "fixer waits for an answer before a call of bash"},
		"PLUS-15 a gate before a step":                            {stateOf(run.GatePending), &events.GateOpenedData{Gate: "g-1", Step: "build", Proposal: []byte(`{}`)}, Gate, "fixer waits for an answer before step build"},
		"PLUS-15 a gate that was answered meanwhile is none":      {stateOf(run.GateApproved), call, "", ""},
		"PLUS-15 an end": {stateOf(run.GateApproved), &events.RunCompletedData{Result: events.Result{DurationMS: 61000, Output: "s3cret"}}, Completed, "fixer is done after 1 min 1 s"},
		"PLUS-15 a failure says why, not with what":       {stateOf(run.GateApproved), &events.RunFailedData{Result: events.Result{Status: events.Failed, FinishReason: events.FinishTokens, Error: "s3cret", DurationMS: 1000}}, Failed, "fixer failed: budget tokens after 1.0 s"},
		"PLUS-15 a stopped run":                           {stateOf(run.GateApproved), &events.RunFailedData{Result: events.Result{Status: events.Failed, FinishReason: events.FinishStopped, DurationMS: 1000}}, Failed, "fixer was stopped after 1.0 s"},
		"PLUS-15 a run that handed off is none":           {stateOf(run.GateApproved), &events.RunFailedData{Result: events.Result{Status: events.Failed, FinishReason: events.FinishHandedOff, DurationMS: 1000}}, "", ""},
		"PLUS-15 a pause of the station, on one line":     {stateOf(run.GateApproved), &events.RunPausedData{Reason: "provider openai:\n\x1b[2J429"}, Paused, "fixer is paused: provider openai: ·[2J429"},
		"PLUS-15 a pause that a person asked for is none": {stateOf(run.GateApproved), &events.RunPausedData{Reason: "lunch", Input: 7}, "", ""},
		"PLUS-15 a pause after a no is none":              {stateOf(run.GateRejected), &events.RunPausedData{Gate: "g-1"}, "", ""},
		"PLUS-15 a pause after a gate that expired":       {stateOf(run.GateExpired), &events.RunPausedData{Gate: "g-1", Reason: "gate expired"}, Paused, "fixer is paused: gate expired"},
		"other events give none":                          {stateOf(run.GatePending), &events.RunStartedData{}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, ok := Of(c.state, events.Event{}, c.p)
			if ok != (c.kind != "") || ok && (n.Kind != c.kind || n.Text != c.text || n.By != "anna" || n.Project != "pay") {
				t.Errorf("got %v %+v, want %s %q", ok, n, c.kind, c.text)
			}
			if b, _ := json.Marshal(n); bytes.Contains(b, []byte("s3cret")) {
				t.Errorf("it has what a tool is given: %s", b)
			}
		})
	}
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	n := Notice{Run: "run-1;x", Agent: "a", Text: "a\x1b]0;owned\a waits\nnow \u202e"}
	const text = "a·]0;owned· waits now ·"
	for name, c := range map[string]struct {
		form Form
		env  map[string]string
		want string
	}{
		"PLUS-15 the bell":                         {Bell, nil, "\a"},
		"PLUS-15 OSC 9":                            {OSC9, nil, "\x1b]9;inspan run-1,x: " + text + "\x1b\\"},
		"PLUS-15 OSC 777":                          {OSC777, nil, "\x1b]777;notify;inspan run-1,x;" + text + "\x1b\\"},
		"PLUS-15 off":                              {Off, nil, ""},
		"PLUS-15 an unknown terminal":              {Auto, map[string]string{"TERM": "xterm-256color"}, "\x1b]9;inspan run-1,x: " + text + "\x1b\\\a"},
		"PLUS-15 a terminal with VTE":              {Auto, map[string]string{"TERM": "xterm", "VTE_VERSION": "7600"}, "\x1b]777;notify;inspan run-1,x;" + text + "\x1b\\\a"},
		"PLUS-15 the console knows no sequence":    {Auto, map[string]string{"TERM": "linux"}, "\a"},
		"PLUS-15 tmux is asked to hand it through": {OSC9, map[string]string{"TMUX": "x"}, "\x1bPtmux;\x1b\x1b]9;inspan run-1,x: " + text + "\x1b\x1b\\\x1b\\"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			if err := (Terminal{&out, c.form, func(name string) string { return c.env[name] }}).Send(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			if got := out.String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	script := func(t *testing.T, limit time.Duration, text string) (c *Command, dir string, errs chan error) {
		t.Helper()
		dir, errs = t.TempDir(), make(chan error, 10)
		c, err := NewCommand(CommandConfig{Args: []string{"/bin/sh", "-c", text, "sh", dir}, Limit: limit,
			Env: Without(append(os.Environ(), "KEEP=1", "OPENAI_API_KEY=x", "OPENAI_API_KEY_FILE=y"), []string{"OPENAI_API_KEY"}), Failed: func(err error) { errs <- err }})
		if err != nil {
			t.Fatal(err)
		}
		return c, dir, errs
	}
	n := Notice{Kind: Gate, Run: "run-1", Text: "$(touch owned); `id`", Command: "inspan approve run-1/g-1"}
	t.Run("PLUS-15 the notice is JSON on standard input and in the environment, and no secret of this process is", func(t *testing.T) {
		t.Parallel()
		c, dir, _ := script(t, 5*time.Minute, `cat > "$1/in"; env > "$1/env"; echo noise; pwd > "$1/pwd"`)
		if err := c.Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		c.Close()
		in, _ := os.ReadFile(filepath.Join(dir, "in"))
		var got Notice
		if err := json.Unmarshal(in, &got); err != nil || !reflect.DeepEqual(got, n) {
			t.Errorf("%v: %s", err, in)
		}
		env, _ := os.ReadFile(filepath.Join(dir, "env"))
		for _, want := range []string{"INSPAN_NOTICE_KIND=gate\n", "INSPAN_NOTICE_RUN=run-1\n", "INSPAN_NOTICE_TEXT=" + n.Text + "\n", "INSPAN_NOTICE_COMMAND=inspan approve run-1/g-1\n", "KEEP=1\n"} {
			if !bytes.Contains(env, []byte(want)) {
				t.Errorf("no %q in\n%s", want, env)
			}
		}
		if bytes.Contains(env, []byte("OPENAI_API_KEY")) {
			t.Errorf("a secret is in\n%s", env)
		}
	})
	t.Run("PLUS-15 a command that does not end is ended, with what it started", func(t *testing.T) {
		t.Parallel()
		c, _, errs := script(t, 50*time.Millisecond, `sleep 600 & sleep 600`)
		if err := c.Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		c.Close()
		if err := <-errs; !strings.Contains(err.Error(), "did not end within") {
			t.Error(err)
		}
	})
	t.Run("PLUS-15 no more than a few run at a time", func(t *testing.T) {
		t.Parallel()
		c, dir, _ := script(t, 5*time.Minute, `while ! test -e "$1/go"; do sleep 0.02; done`)
		for range MostCommands {
			if err := c.Send(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		full, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Send(full, n); !errors.Is(err, ErrBusy) {
			t.Errorf("error %v", err)
		}
		if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.Send(t.Context(), n); err != nil { // it waits until one has ended
			t.Error(err)
		}
		c.Close()
	})
	t.Run("PLUS-15 what cannot be started is reported", func(t *testing.T) {
		t.Parallel()
		errs := make(chan error, 1)
		c, err := NewCommand(CommandConfig{Args: []string{"/no/such/program"}, Limit: time.Second, Failed: func(err error) { errs <- err }})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if err := <-errs; !strings.Contains(err.Error(), "/no/such/program for run run-1") {
			t.Error(err)
		}
		if _, err := NewCommand(CommandConfig{Args: []string{""}, Limit: time.Second}); err == nil {
			t.Error("no program is taken")
		}
	})
}

func TestAttended(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := Attended{Sinks: []Sink{Terminal{Out: &out, Form: Bell}}, After: 10 * time.Second}
	start := time.Unix(1000, 0)
	for _, c := range []struct {
		name  string
		after time.Duration
		kind  Kind
		want  int
	}{
		{"PLUS-15 an end that came soon calls no one", 9 * time.Second, Completed, 0},
		{"PLUS-15 one that was waited for does", 10 * time.Second, Failed, 1},
		{"PLUS-15 a gate always does", 0, Gate, 1},
	} {
		out.Reset()
		a.Acted(start)
		a.See(start.Add(c.after), Notice{Kind: c.kind})
		if got := strings.Count(out.String(), "\a"); got != c.want {
			t.Errorf("%s: %d bells, want %d", c.name, got, c.want)
		}
	}
}
