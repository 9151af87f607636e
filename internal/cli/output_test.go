package cli_test

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/goccy/go-yaml"

	"github.com/inspan/inspan/internal/cli"
)

// TestForms: -o says the form of what is printed.
func TestForms(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	d.want(0, nil, "run", "reader", "read \x1b[31mit\u202e: yes", "--id", "run-a", "--session", "desk")
	d.want(3, nil, "run", "reader", "x", "--id", "run-g", "--autonomy", "1")
	for s := d.do("gates"); !strings.Contains(s.out, "run-g/"); s = d.do("gates") {
		pause(t)
	}
	for s := d.do("runs"); !strings.Contains(s.out, "completed"); s = d.do("runs") {
		pause(t)
	}
	t.Run("CLI-7 json and yaml are the same data, and neither controls a terminal", func(t *testing.T) {
		asJSON, asYAML := d.want(0, nil, "runs", "-o", "json").out, d.want(0, nil, "runs", "-o", "yaml").out
		if asJSON != d.want(0, nil, "runs", "--json").out {
			t.Error("-o json is not --json")
		}
		var runs []struct {
			HarnessID string `yaml:"harnessId"`
			Task      string
		}
		if err := yaml.Unmarshal([]byte(asYAML), &runs); err != nil || len(runs) != 2 || runs[1].HarnessID != "run-a" || runs[1].Task != "read \x1b[31mit\u202e: yes" {
			t.Errorf("%v %+v\n%s", err, runs, asYAML)
		}
		if strings.Contains(asJSON+asYAML, "\x1b") {
			t.Errorf("raw control characters: %q", asYAML)
		}
		d.want(0, words{"harnessId: run-a"}, "inspect", "run-a", "-o", "yaml")
	})
	t.Run("CLI-7 name is one name a line, and nothing for none", func(t *testing.T) {
		for _, tc := range []struct {
			want string
			args words
		}{
			{"run-g\nrun-a\n", words{"runs"}}, {"broken\nreader\nsly\n", words{"agents"}}, {"desk\n", words{"session", "list"}}, {"step-step-1\n", words{"checkpoints", "run-a"}},
			{"", words{"runs", "--status", "held"}}, {"", words{"dead", "list"}}, {"", words{"grants"}}, {"", words{"artifacts", "list", "run-a"}}, {"", words{"branches", "list"}},
		} {
			if s := d.want(0, nil, append(tc.args, "-o", "name")...); s.out != tc.want {
				t.Errorf("%v: %q, want %q", tc.args, s.out, tc.want)
			}
		}
		if s := d.want(0, nil, "gates", "-o", "name"); !strings.HasPrefix(s.out, "run-g/g-") || strings.Count(s.out, "\n") != 1 {
			t.Errorf("%q", s.out)
		}
	})
	t.Run("CLI-7 wide has more columns", func(t *testing.T) {
		d.want(0, words{"SESSION", "CREATED", "desk", "station"}, "runs", "-o", "wide")
		if s := d.want(0, nil, "runs"); strings.Contains(s.out, "SESSION") || strings.Contains(s.out, "WHERE") {
			t.Error(s.out)
		}
		d.want(0, words{"SANDBOX", "host"}, "agents", "-o", "wide")
		d.want(0, words{"SESSION"}, "gates", "-o", "wide")
	})
	t.Run("CLI-7 a form that a command does not have is a wrong command line", func(t *testing.T) {
		d.want(2, words{`did you mean "yaml"?`}, "runs", "-o", "yml")
		d.want(2, words{"want one of json, yaml, wide, name"}, "runs", "-o", "xxxxxx")
		d.want(2, words{"is for lists"}, "inspect", "run-a", "-o", "wide")
		d.want(2, words{"line by line"}, "logs", "run-a", "-o", "yaml")
		d.want(2, words{"leave one of them out"}, "runs", "--json", "-o", "name")
		d.want(2, words{`did you mean "waiting"?`}, "runs", "--status", "wating")
	})
}

func TestErrorsAsJSON(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	d.want(0, nil, "run", "reader", "x", "--id", "run-a")
	type failure struct {
		Error struct {
			Message, Hint, Code string
			Exit                int
		}
	}
	for _, tc := range []struct {
		name, code, message string
		exit                int
		hint                bool
		args                words
	}{
		{"not found", "not_found", "run-none", 5, true, words{"inspect", "run-none"}}, {"a wrong flag", "usage", "unknown flag", 2, false, words{"runs", "--nope"}},
		{"a refusal", "bad_move", "already completed", 4, true, words{"pause", "run-a"}}, {"a wrong value", "usage", "--status", 2, false, words{"runs", "--status", "zzzzzzz"}},
		{"a gate", "waits", "waits for a person", 3, false, words{"run", "reader", "x", "--autonomy", "1"}},
	} {
		t.Run("CLI-7 "+tc.name, func(t *testing.T) {
			s := d.want(tc.exit, nil, append(tc.args, "--json")...)
			lines := strings.Split(strings.TrimSpace(s.err), "\n")
			f := decode[failure](t, lines[len(lines)-1]).Error
			if f.Code != tc.code || f.Exit != tc.exit || !strings.Contains(f.Message, tc.message) || (f.Hint != "") != tc.hint || tc.hint && strings.Contains(f.Message, f.Hint) {
				t.Errorf("%+v", f)
			}
		})
	}
	t.Run("CLI-7 -o json is the same, and text stays text", func(t *testing.T) {
		if f := decode[failure](t, d.want(5, nil, "inspect", "run-none", "-o", "json").err).Error; f.Code != "not_found" {
			t.Errorf("%+v", f)
		}
		if s := d.want(5, nil, "inspect", "run-none"); strings.HasPrefix(s.err, "{") {
			t.Error(s.err)
		}
	})
}

// watching is a list that is watched.
type watching struct {
	t     *testing.T
	lines *bufio.Scanner
	stop  func()
	ended chan said
}

func (d *desk) watching(args ...string) watching {
	d.t.Helper()
	ctx, stop := context.WithCancel(d.t.Context())
	out, in := io.Pipe()
	w := watching{d.t, bufio.NewScanner(out), stop, make(chan said, 1)} // one ending
	go func() {
		var errOut buffer
		code := cli.MainAlone(ctx, append(args, "--watch", "--server", d.station.URL()), strings.NewReader(""), in, &errOut)
		_ = in.Close() // never fails
		w.ended <- said{code, "", errOut.String()}
	}()
	d.t.Cleanup(stop)
	return w
}

// sees waits for a line that has all words.
func (w watching) sees(words ...string) {
	w.t.Helper()
next:
	for w.lines.Scan() {
		for _, one := range words {
			if !strings.Contains(w.lines.Text(), one) {
				continue next
			}
		}
		return
	}
	w.t.Fatalf("the list ended without %q", words)
}

func (w watching) ends() {
	w.t.Helper()
	w.stop()
	for w.lines.Scan() {
	}
	if s := <-w.ended; s.code != 0 {
		w.t.Errorf("exit %d %s", s.code, s.err)
	}
}

func TestWatchLists(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	t.Run("CLI-7 a list that is watched has a line for what is new and changed, and ends with exit 0", func(t *testing.T) {
		runs, gates := d.watching("runs"), d.watching("gates", "--json")
		runs.sees("No runs.")
		d.want(3, nil, "run", "reader", "x", "--id", "run-w", "--autonomy", "1", "--session", "desk")
		runs.sees("run-w", "waiting")
		gates.sees(`"harnessId":"run-w"`)
		d.want(0, nil, "approve", "run-w", "--by", "anna")
		runs.sees("run-w", "completed")
		gates.sees(`{"gone":"run-w/g-`)
		runs.ends()
		gates.ends()
		names := d.watching("session", "list", "-o", "name")
		names.sees("desk")
		names.ends()
		agents := d.watching("agents")
		agents.sees("reader", "scripted/reader")
		agents.ends()
	})
	t.Run("CLI-7 on a terminal it is drawn over itself", func(t *testing.T) {
		tm := d.terminalOf(pty.Winsize{Rows: 12, Cols: 60}, nil, "runs", "--watch")
		at := tm.sees(0, "run-w")
		d.want(0, nil, "run", "reader", "x", "--id", "run-z")
		tm.sees(at, "run-z")
		tm.types("\x03")
		tm.ends()
		if strings.Contains(tm.seen.String(), "\x1b[31m") || !strings.Contains(tm.seen.String(), "A\r") {
			t.Errorf("%q", tm.seen.String())
		}
	})
}
