package cli_test

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/creack/pty"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/run"
)

// raw returns the first character of a text that a terminal would act on, or that turns the direction of what follows.
func raw(text string) (r rune, at int) {
	for i, r := range text {
		if r != '\n' && unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return r, i
		}
	}
	return 0, -1
}

// TestHostileViews has a model that writes control characters, line ends of other systems, bytes that are no text and
// long lines into its texts, its arguments, names of files, contents of files and the output of commands.
func TestHostileViews(t *testing.T) {
	t.Parallel()
	const nasty = `\e[2J\e]0;owned\a\r \u202e \x9b31m`
	long := strings.Repeat("w", 300)
	d := newDesk(t)
	for name, text := range map[string]string{
		"agents/nasty.prompt": strings.Replace(agent("nasty", "write, edit, bash"), "sandbox:",
			"guards: [{id: careful, tool: \"{write,edit}\", action: ask, reason: look at it}]\nsandbox:", 1),
		"scripts/nasty.yaml": `turns:
  - when: {turn: 1}
    thinking: "thinks ` + nasty + `"
    text: "says ` + nasty + long + `"
    calls:
      - {name: write, input: {path: "a b ` + nasty + `\nc.txt", content: "x"}}
      - {name: write, input: {path: "plain.txt", content: "one\r\ntwo ` + nasty + `\0three\x7f\n"}}
  - when: {turn: 2}
    calls:
      - {name: edit, input: {path: "plain.txt", old_string: "one", new_string: "ONE\r` + nasty + `"}}
      - {name: bash, input: {command: "printf 'out \\033[2J\\033]0;owned\\007\\r\\n\\377\\000 x\\n'; echo 'cmd ` + nasty + `'; touch 'n b'"}}
  - text: "done ` + nasty + `\r\nsecond line"
`,
	} {
		putFile(t, filepath.Join(d.dir, name), text)
	}
	d.up()
	if s := d.do("run", "nasty", "task \x1b[2J \u202e \r\a", "--id", "nasty"); s.code != 3 {
		t.Fatalf("exit %d: %q %q", s.code, s.out, s.err)
	}
	views := [][]string{{"runs"}, {"runs", "-o", "wide"}, {"inspect", "nasty"}, {"tree", "nasty"}, {"logs", "nasty"}, {"why", "nasty"}, {"gates"}, {"top"},
		{"cost", "nasty"}, {"checkpoints", "nasty"}, {"artifacts", "list", "nasty"}, {"report", "nasty"}, {"export", "nasty"}, {"inspect", "nasty", "--json"},
		{"gates", "-o", "yaml"}, {"watch", "nasty"}, {"logs", "nasty", "--follow"}}
	look := func(t *testing.T, ended bool) {
		t.Helper()
		for _, args := range views {
			if follows := args[0] == "watch" || args[len(args)-1] == "--follow"; follows && !ended {
				continue // it goes on until the run ends
			}
			s := d.do(args...)
			if args[0] == "export" { // the stored bytes, which hashes are of: JSON, which may have these as they are
				s.out = strings.NewReplacer("\u202e", "", "\u009b", "", "\x7f", "").Replace(s.out)
			}
			if r, at := raw(s.out); at >= 0 {
				t.Errorf("inspan %s prints %U raw:\n%q", strings.Join(args, " "), r, s.out[max(0, at-60):min(len(s.out), at+40)])
			}
			if r, at := raw(s.err); at >= 0 {
				t.Errorf("inspan %s prints %U raw among the errors: %q", strings.Join(args, " "), r, s.err)
			}
		}
	}
	t.Run("CLI-7 GATE-5 while a gate is open no view in a pipe prints a control character of a model, a tool or a file name", func(t *testing.T) {
		look(t, false)
	})
	t.Run("CLI-7 GATE-5 nor does the terminal get one, at 40 columns, at one that can do nothing and without colours", func(t *testing.T) {
		for _, env := range [][]string{nil, {"TERM=dumb"}, {"NO_COLOR=1"}} {
			for _, args := range [][]string{{"runs"}, {"inspect", "nasty"}, {"tree", "nasty"}, {"logs", "nasty"}, {"why", "nasty"}, {"gates"}, {"checkpoints", "nasty"}} {
				tm := d.terminalOf(pty.Winsize{Rows: 40, Cols: 40}, env, args...)
				<-tm.done
				for _, bad := range []string{"\x1b[2J", "\x1b]0;", "\a", "\u202e", "\u009b", "\x00", "\x7f"} {
					if strings.Contains(tm.seen.String(), bad) {
						t.Errorf("%v inspan %s: %q was written:\n%q", env, strings.Join(args, " "), bad, tm.seen.String())
					}
				}
				if env != nil && env[0] == "TERM=dumb" && strings.Contains(tm.seen.String(), "\x1b") {
					t.Errorf("inspan %s writes escape sequences to a terminal that knows none: %q", strings.Join(args, " "), tm.seen.String())
				}
				if env != nil && env[0] == "NO_COLOR=1" && strings.Contains(tm.seen.String(), "\x1b[3") {
					t.Errorf("inspan %s writes colours: %q", strings.Join(args, " "), tm.seen.String())
				}
			}
		}
	})
	t.Run("CLI-7 the run that a person approved, and all views of it when it has ended", func(t *testing.T) {
		for !decode[run.State](t, d.do("inspect", "nasty", "--json").out).Status.Ended() {
			pause(t)
			for _, g := range decode[[]client.Waiting](t, d.do("gates", "--json").out) {
				s := d.do("approve", g.Run.HarnessID+"/"+g.Gate.ID)
				if r, at := raw(s.out + s.err); at >= 0 {
					t.Errorf("approve prints %U raw: %q", r, s.out+s.err)
				}
			}
		}
		look(t, true)
	})
	t.Run("CLI-7 a pipe has no width: nothing is cut by it", func(t *testing.T) {
		for _, args := range [][]string{{"tree", "nasty"}, {"logs", "nasty"}, {"runs", "-o", "name"}} {
			narrow := process(t, d.dir, []string{"COLUMNS=40"}, append(args, "--server", d.station.URL(), "--utc")...)
			wide := process(t, d.dir, []string{"COLUMNS=300"}, append(args, "--server", d.station.URL(), "--utc")...)
			if narrow.code != 0 || narrow.out != wide.out {
				t.Errorf("inspan %s: exit %d\n%s\n%s", strings.Join(args, " "), narrow.code, narrow.out, wide.out)
			}
		}
	})
}
