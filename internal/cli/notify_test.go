package cli_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/inspan/inspan/internal/cli"
	"github.com/inspan/inspan/internal/notify"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// caller is inspan notify --json, whose lines are read one after the other.
type caller struct {
	t     *testing.T
	lines *bufio.Scanner
	stop  func() int
}

func (d *desk) calls(args ...string) *caller {
	d.t.Helper()
	ctx, cancel := context.WithCancel(d.t.Context())
	r, w := io.Pipe()
	code := make(chan int, 1)
	var errs buffer
	go func() {
		code <- cli.MainAlone(ctx, append([]string{"notify", "--json", "--server", d.station.URL()}, args...), strings.NewReader(""), w, &errs)
		_ = w.Close()
	}()
	var c *caller
	c = &caller{t: d.t, lines: bufio.NewScanner(r), stop: func() int {
		cancel()
		_ = r.Close()
		if text := errs.String(); text != "" {
			c.t.Errorf("inspan notify: %s", text)
		}
		return <-code
	}}
	return c
}

// next is the next notice.
func (c *caller) next() notify.Notice {
	c.t.Helper()
	if !c.lines.Scan() {
		c.t.Fatalf("inspan notify ended: %v", c.lines.Err())
	}
	return decode[notify.Notice](c.t, c.lines.Text())
}

func TestNotify(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	keep := filepath.Join(t.TempDir(), "position.json")
	t.Run("PLUS-15 gates, failures and ends of a person's runs are notified once, also over a restart", func(t *testing.T) {
		c := d.calls("--keep", keep, "--by", "anna")
		until(t, "the position is kept", func() bool { return fileHas(keep, "position") }) // it has begun
		d.asks("run-other", "broken", "ben", 3)
		d.want(1, nil, "watch", "run-other")
		d.asks("run-bad", "broken", "anna", 3)
		n := c.next()
		if n.Kind != notify.Failed || n.Run != "run-bad" || n.Agent != "broken" || n.By != "anna" || n.Command != "inspan inspect run-bad --server "+d.station.URL() || strings.Contains(n.Text, "model is gone") {
			t.Errorf("%+v", n)
		}
		d.asks("run-gate", "reader", "anna", 1)
		if n = c.next(); n.Kind != notify.Gate || n.Run != "run-gate" || !strings.HasPrefix(n.Command, "inspan approve run-gate/g-") {
			t.Errorf("%+v", n)
		}
		failures := func() uint64 {
			b, _ := os.ReadFile(keep)
			return decode[struct{ Position client.Position }](t, string(b)).Position[events.RunFailed]
		}
		before := failures() // of run-bad: the notice of the gate came behind it
		d.asks("run-again", "broken", "anna", 3)
		c.next()
		until(t, "the position has moved", func() bool { return failures() > before })
		if code := c.stop(); code != 0 {
			t.Errorf("exit %d", code)
		}
		d.asks("run-done", "reader", "anna", 3)
		c = d.calls("--keep", keep, "--by", "anna")
		if n := c.next(); n.Kind != notify.Completed || n.Run != "run-done" || !strings.HasPrefix(n.Text, "reader is done after") {
			t.Errorf("%+v", n)
		}
		c.stop()
	})
	t.Run("PLUS-15 a file of another station, or of something else, is refused", func(t *testing.T) {
		for text, why := range map[string]string{`{"station":"other","position":{"run.failed":1}}`: "is for station other", "hello": "not a file that inspan notify made"} {
			path := filepath.Join(t.TempDir(), "p")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			d.want(2, words{why}, "notify", "--keep", path)
		}
	})
	t.Run("PLUS-15a at a terminal a gate calls the person, by the bell, a sequence and their command; a short run does not", func(t *testing.T) {
		noticed := filepath.Join(d.dir, "noticed")
		env := []string{"TMUX=", "VTE_VERSION=", "INSPAN_NOTIFY_COMMAND=/bin/sh,-c,cat >> " + noticed}
		size := pty.Winsize{Rows: 24, Cols: 100}
		tm := d.terminalOf(size, env, "run", "reader", "look", "--id", "run-short")
		tm.ends()
		if raw := tm.seen.String(); strings.Contains(raw, "\a") || strings.Contains(raw, "\x1b]") || fileHas(noticed, "") {
			t.Errorf("it called: %q", raw)
		}
		tm = d.terminalOf(size, append(env, "INSPAN_NOTIFY_AFTER=0s"), "run", "reader", "look", "--id", "run-asks", "--autonomy", "1")
		tm.sees(0, "Approve?")
		tm.types("y\r")
		tm.ends()
		raw := tm.seen.String()
		for _, want := range []string{"\x1b]9;inspan run-asks: reader waits for an answer before step ", "\x1b]9;inspan run-asks: reader is done after "} {
			if strings.Count(raw, want) != 1 {
				t.Errorf("%d times %q in\n%q", strings.Count(raw, want), want, raw)
			}
		}
		if n := strings.Count(raw, "\a"); n != 2 {
			t.Errorf("%d bells", n)
		}
		if !fileHas(noticed, `"kind":"gate"`) || !fileHas(noticed, `"kind":"completed"`) { // the program waits for its commands
			t.Errorf("the command was not run for both")
		}
		d.want(3, nil, "run", "reader", "look", "--id", "run-plain", "--autonomy", "1") // no terminal: no one to call
		tm = d.terminalOf(size, append(env, "INSPAN_NOTIFY_TERMINAL=horn"), "run", "reader", "look", "--id", "run-horn")
		tm.sees(0, `notify.terminal is "horn", want one of auto, bell`)
		tm.ends()
	})
	t.Run("PLUS-15 inspan top and inspan notify at a terminal call, too", func(t *testing.T) {
		env := []string{"TMUX=", "INSPAN_NOTIFY_TERMINAL=osc777", "INSPAN_NOTIFY_AFTER=0s"}
		size := pty.Winsize{Rows: 24, Cols: 100}
		top := d.terminalOf(size, env, "top", "--every", "500ms")
		top.sees(0, "gates waiting")
		beside := d.terminalOf(size, env, "notify")
		beside.sees(0, "Ctrl+C ends")
		d.want(1, nil, "run", "broken", "look", "--id", "run-late")
		for _, tm := range []*terminal{top, beside} {
			until(t, "the sequence", func() bool {
				return strings.Contains(tm.seen.String(), "\x1b]777;notify;inspan run-late;broken failed: ")
			})
		}
		beside.sees(0, "inspan inspect run-late")
		beside.types("\x03")
		beside.ends()
		top.types("\x03")
		top.ends()
	})
	t.Run("PLUS-15 SAFE-11 a project cannot name the command", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, ".inspan"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, ".inspan", "config.yaml"), []byte("notify:\n  command: [touch, owned]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		tm := d.terminalIn(dir, pty.Winsize{Rows: 24, Cols: 200}, []string{"INSPAN_CONFIG="}, "run", "reader", "look")
		tm.ends()
		if !tm.shows(0, "a project may not set this") {
			t.Errorf("%s", tm.seen.String())
		}
	})
}

// asks starts a run in the name of somebody.
func (d *desk) asks(id, agent, by string, autonomy int) {
	d.t.Helper()
	c, err := client.Connect(d.t.Context(), client.Config{URL: d.station.URL()})
	if err != nil {
		d.t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Start(d.t.Context(), events.Task{ID: id, Agent: agent, Task: "look", By: by, Autonomy: &autonomy}); err != nil {
		d.t.Fatal(err)
	}
}

// fileHas reports whether a file is there and has a text.
func fileHas(path, text string) bool {
	b, err := os.ReadFile(path)
	return err == nil && strings.Contains(string(b), text)
}
