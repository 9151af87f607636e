package cli_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/cli"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/run"
)

type words = []string

func TestRun(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	t.Run("CLI-7 run --json prints the run's CloudEvents, numbered from 1", func(t *testing.T) {
		s := d.want(0, nil, "run", "reader", "read the note", "--id", "run-a", "--json", "--session", "desk")
		lines := strings.Split(strings.TrimSpace(s.out), "\n")
		if len(lines) < 8 {
			t.Fatalf("%d lines:\n%s", len(lines), s.out)
		}
		for i, l := range lines {
			f := decode[struct {
				SpecVersion, Type, Source, ID string
				Sequence                      any
			}](t, l)
			if f.SpecVersion != "1.0" || f.Type == "" || f.Source == "" || f.ID == "" || fmt.Sprint(f.Sequence) != fmt.Sprint(i+1) {
				t.Errorf("line %d is %+v", i+1, f)
			}
		}
		if !strings.Contains(lines[len(lines)-1], "completed") {
			t.Errorf("the last line is %s", lines[len(lines)-1])
		}
	})
	t.Run("CLI-7 run in words has a line for each event, the result, and no colour", func(t *testing.T) {
		s := d.want(0, words{"run created for agent reader", "read c", "The note is read."}, "run", "reader", "read it", "--id", "run-b")
		if strings.Contains(s.out+s.err, "\x1b") {
			t.Errorf("colour without a terminal: %q", s.out)
		}
	})
	t.Run("CLI-7 the same id never runs twice", func(t *testing.T) {
		first := d.want(0, nil, "export", "run-a").out
		d.want(0, nil, "run", "reader", "read the note", "--id", "run-a", "--json", "--session", "desk")
		if again := d.want(0, nil, "export", "run-a").out; again != first {
			t.Error("the run changed")
		}
	})
	t.Run("SAFE-12 what a model wrote cannot steer the terminal", func(t *testing.T) {
		s := d.want(0, words{"second line"}, "run", "sly", "be sly", "--id", "run-sly")
		if strings.ContainsAny(s.out, "\x1b\u202e") {
			t.Errorf("raw control characters: %q", s.out)
		}
	})
	t.Run("CLI-7 exit codes tell failed, refused, unknown and a bad command line apart", func(t *testing.T) {
		d.want(1, words{"the model is gone"}, "run", "broken", "x", "--id", "run-broken")
		d.want(5, words{"nobody", "registered"}, "run", "nobody", "x")
		d.want(4, nil, "pause", "run-a") // it has ended
		for _, args := range [][]string{{"inspect", "run-none"}, {"logs", "run-none"}, {"export", "run-none"}, {"why", "run-none"}, {"pause", "run-none"},
			{"approve", "g-none"}, {"dead", "show", "999"}, {"autonomy", "run-none", "3"}} {
			d.want(5, words{"not found"}, args...)
		}
		for _, args := range [][]string{{"run"}, {"run", "reader"}, {"runs", "--nope"}, {"runs", "-Z"}, {"runs", "--limit", "x"}, {"runs", "--limit", "-1"}, {"runs", "extra"}, {"nope"},
			{"dead", "nope"}, {"autonomy", "run-a", "9"}, {"export", "run-a", "--format", "xml"}, {"run", "reader", "x", "--var", "novalue"}, {"run", "reader", "x", "--plan", "/none.json"},
			{"inspect", "run a.b"}, {"logs", ">"}, {"runs", "--server"}} {
			var s said
			if args[len(args)-1] == "--server" {
				s = inspan(t, args...)
			} else {
				s = d.do(args...)
			}
			if s.code != 2 || s.err == "" {
				t.Errorf("inspan %q: exit %d, %q", args, s.code, s.err)
			}
		}
	})
	looking(t, d)
}

// looking proves the commands that only look, at the runs that TestRun made.
func looking(t *testing.T, d *desk) {
	t.Run("CLI-7 LIFE-8 PERS-18b runs lists the runs with their figures", func(t *testing.T) {
		s := d.want(0, words{"ID", "AGENT", "STATUS", "STEPS", "TOKENS", "DURATION", "run-a", "reader", "completed", "1/1", "350", "run-broken", "failed"}, "runs")
		if strings.Contains(s.out, "\x1b") {
			t.Error("colour without a terminal")
		}
		infos := decode[[]run.Info](t, d.want(0, nil, "runs", "--json", "--status", "failed").out)
		if len(infos) != 1 || infos[0].HarnessID != "run-broken" || infos[0].CreatedAt.IsZero() {
			t.Errorf("failed runs: %+v", infos)
		}
		if infos := decode[[]run.Info](t, d.want(0, nil, "runs", "--json", "--limit", "2").out); len(infos) != 2 || infos[0].CreatedAt.Before(infos[1].CreatedAt) {
			t.Errorf("limited: %+v", infos)
		}
		all := decode[[]run.Info](t, d.want(0, nil, "runs", "--json", "--limit", "0").out)
		few := d.want(0, nil, "runs", "--json", "--limit", "2")
		if len(all) < 3 || !strings.Contains(few.err, fmt.Sprintf("and %d older run", len(all)-2)) || strings.Contains(few.out, "older") {
			t.Errorf("of %d runs 2 are listed, and of the others it says %q", len(all), few.err)
		}
	})
	t.Run("CLI-8 LIFE-9 TOOL-9 PLAN-10 inspect shows where a run stands", func(t *testing.T) {
		d.want(0, words{"run-a  completed", "reader  scripted/reader", "1 of 1", "at most 50 a step", "300 in", "50 out", "1, 99 of 100 left", "Duration", "desk", "host", "✗ read note.txt"}, "inspect", "run-a")
		s := decode[run.State](t, d.want(0, nil, "inspect", "run-a", "--json").out)
		if s.HarnessID != "run-a" || s.Sequence == 0 || s.Status != "completed" {
			t.Errorf("state: %+v", s)
		}
	})
	t.Run("CLI-10 export prints the run's data", func(t *testing.T) {
		lines := strings.Split(strings.TrimSpace(d.want(0, nil, "export", "run-a", "--format", "jsonl").out), "\n")
		var folded run.State
		for _, l := range lines {
			next, err := folded.Apply([]byte(l))
			if err != nil {
				t.Fatalf("the exported events do not fold: %v", err)
			}
			folded = next
		}
		all := decode[struct {
			State  run.State
			Events []any `json:"facts"`
		}](t, d.want(0, nil, "export", "run-a", "--format", "json").out)
		if len(all.Events) != len(lines) || all.State.Sequence != folded.Sequence || all.State.Status != folded.Status {
			t.Errorf("%d events and %d lines; %s and %s", len(all.Events), len(lines), all.State.Status, folded.Status)
		}
	})
	t.Run("CLI-9 EVT-12 logs show a line for each event, and follow to the end", func(t *testing.T) {
		plain := d.want(0, words{"run created", "run completed"}, "logs", "run-a").out
		if followed := d.want(0, nil, "logs", "run-a", "--follow").out; followed != plain {
			t.Errorf("followed:\n%s\nplain:\n%s", followed, plain)
		}
		if evs, exported := d.want(0, nil, "logs", "run-a", "--json").out, d.want(0, nil, "export", "run-a").out; evs != exported {
			t.Error("logs --json and export differ")
		}
	})
	t.Run("PLUS-5 why says how a run ended", func(t *testing.T) {
		if s := d.want(0, words{"completed"}, "why", "run-a"); strings.Count(s.out, "\n") != 1 {
			t.Errorf("more than a line: %q", s.out)
		}
		if v := decode[struct {
			Status, Why string
			Waits       []struct{ On, Text string }
		}](t, d.want(0, nil, "why", "run-broken", "--json").out); v.Status != "failed" || !strings.Contains(v.Why, "the model is gone") || len(v.Waits) != 1 || v.Waits[0].On != "nothing" {
			t.Errorf("why = %+v", v)
		}
	})
	t.Run("CLI-7 agents, dead letters and the doctor", func(t *testing.T) {
		d.want(0, words{"reader", "scripted/reader", "read"}, "agents")
		d.want(0, words{"NO", "bad_move"}, "dead", "list")
		letters := decode[[]struct{ Seq uint64 }](t, d.want(0, nil, "dead", "list", "--json").out)
		if len(letters) == 0 {
			t.Fatal("no dead letters")
		}
		d.want(0, words{"bad_move"}, "dead", "show", fmt.Sprint(letters[0].Seq))
		d.want(0, words{"git", "sandbox host", "station", "durability", "planner", "executor", "gatekeeper", "toolrunner", "1 running", "reader"}, "doctor")
		type finding struct {
			What string
			OK   bool
		}
		for _, f := range decode[[]finding](t, d.want(0, nil, "doctor", "--json").out) {
			if f.What == "station" && !f.OK {
				t.Error("the doctor does not see the station")
			}
		}
	})
}

func TestGates(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	gateOf := func(id string) client.Waiting {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		c, err := client.Connect(ctx, client.Config{URL: d.station.URL()})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for item, err := range c.Watch(ctx, id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if g := item.State.Waiting(); len(g) > 0 {
				return client.Waiting{Run: run.InfoOf(item.State), Gate: g[0]}
			}
		}
		t.Fatal("no gate opened")
		return client.Waiting{}
	}
	start := func(id string) string {
		t.Helper()
		if s := d.want(0, nil, "run", "reader", "x", "--id", id, "--autonomy", "1", "--detach"); strings.TrimSpace(s.out) != id {
			t.Errorf("detached run printed %q", s.out)
		}
		return gateOf(id).Gate.ID
	}
	t.Run("GATE-14 PLUS-5 gates are listed, and why names the gate", func(t *testing.T) {
		d.want(0, words{"No gate waits."}, "gates")
		g := start("run-listed")
		d.want(0, words{g, "inspan approve"}, "why", "run-listed")
		d.want(0, words{"run-listed", "waiting"}, "inspect", "run-listed")
		// The index follows the log; the command that needs the gate in it is tried until it is there.
		var s said
		for deadline := time.Now().Add(5 * time.Minute); !strings.Contains(s.out, g) && time.Now().Before(deadline); {
			pause(t)
			s = d.want(0, nil, "gates")
		}
		if !strings.Contains(s.out, g) || !strings.Contains(s.out, "run-listed") || !strings.Contains(s.out, "0/1") {
			t.Errorf("gates: %s", s.out)
		}
		d.want(0, words{"run-listed", "waiting"}, "runs", "--status", "waiting")
		if list := decode[[]map[string]any](t, d.want(0, nil, "gates", "--json").out); len(list) != 1 {
			t.Errorf("%d gates", len(list))
		}
		d.want(0, words{"is approved by anna", "Run run-listed is"}, "approve", g, "--by", "anna", "--reason", "seen")
		d.want(0, words{"approved by", "anna", "seen", "run completed"}, "logs", "run-listed", "--follow")
		d.want(4, words{"approved", "anna"}, "reject", "run-listed/"+g, "--by", "bea")
		d.want(0, words{"approved by anna"}, "approve", "run-listed/"+g, "--by", "bea") // it is so already
	})
	t.Run("GATE-9 a rejected gate pauses the run with exit 3, resume asks again", func(t *testing.T) {
		g := start("run-no")
		d.want(0, words{"paused", "inspan revise run-no --plan FILE"}, "reject", "run-no/"+g, "--by", "anna", "--reason", "not today")
		d.want(0, words{"paused", "not today", "inspan resume run-no", "inspan revise run-no --plan FILE"}, "why", "run-no")
		d.want(4, words{"rejected"}, "approve", "run-no/"+g, "--by", "anna")
		d.want(3, words{"paused", "not today"}, "run", "reader", "x", "--id", "run-no", "--autonomy", "1")
	})
	t.Run("PLAN-9 CLI-9 a paused run gets another plan and goes on with it", func(t *testing.T) {
		g := start("run-revise")
		file := text(t, filepath.Join(t.TempDir(), "plan.json"), `{"steps":[{"id":"other","description":"read it in another way"}]}`)
		d.want(4, words{"the run is running", "inspan pause run-revise"}, "revise", "run-revise", "--plan", file)
		d.want(0, words{"paused"}, "reject", "run-revise/"+g, "--by", "anna", "--reason", "not so")
		d.want(2, words{"--plan"}, "revise", "run-revise")
		d.want(2, nil, "revise", "run-revise", "--plan", "/none.json")
		d.want(5, words{"not found"}, "revise", "run-none", "--plan", file)
		d.want(0, words{"The plan has 1 step now. Run run-revise is paused."}, "revise", "run-revise", "--plan", file, "--by", "bea", "--reason", "another way")
		d.want(4, words{"had that id"}, "revise", "run-revise", "--plan", file)
		again := text(t, filepath.Join(t.TempDir(), "again.json"), `{"steps":[{"id":"third","description":"read it in a third way"}]}`)
		d.want(0, words{`"status": "running"`, `"currentStep": "third"`}, "revise", "run-revise", "--plan", again, "--by", "bea", "--resume", "--json")
		d.want(0, words{"plan revised by bea, 1 step removed, 0 kept, 1 new", "another way", "resumed by bea"}, "logs", "run-revise")
	})
	t.Run("GATE-9 an answer to another proposal is refused", func(t *testing.T) {
		g := start("run-hash")
		d.want(4, nil, "approve", "run-hash/"+g, "--by", "anna", "--hash", strings.Repeat("0", 64))
		d.want(0, nil, "why", "run-hash")
	})
	t.Run("CLI-9 logs --follow go on as events come, pause and stop steer", func(t *testing.T) {
		start("run-steer")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		var out, errOut buffer
		ended := make(chan int, 1) // one exit code
		go func() {
			ended <- cli.MainAlone(ctx, []string{"logs", "run-steer", "--follow", "--server", d.station.URL()}, strings.NewReader(""), &out, &errOut)
		}()
		d.want(0, words{"autonomy"}, "autonomy", "--help")
		d.want(0, nil, "autonomy", "run-steer", "2")
		d.want(0, words{"is paused"}, "pause", "run-steer", "--reason", "lunch", "--by", "bea")
		d.want(0, nil, "resume", "run-steer", "--by", "bea")
		d.want(0, words{"is stopped"}, "stop", "run-steer", "--reason", "enough", "--by", "bea")
		if code := <-ended; code != 0 {
			t.Errorf("logs ended with %d: %s", code, errOut.String())
		}
		for _, w := range []string{"autonomy 1 became 2", "paused by bea: lunch", "resumed by bea", "enough"} {
			if !strings.Contains(out.String(), w) {
				t.Errorf("the log does not say %q:\n%s", w, out.String())
			}
		}
	})
	t.Run("CLI-9 watch goes on behind a pause that was over long ago", func(t *testing.T) {
		if s := d.do("watch", "run-steer"); s.code != 1 || !strings.Contains(s.out, "enough") {
			t.Errorf("exit %d of a run that was stopped\n%s%s", s.code, s.out, s.err)
		}
	})
	t.Run("GATE-9 run --yes approves every gate", func(t *testing.T) {
		d.want(0, words{"approved"}, "run", "reader", "x", "--id", "run-yes", "--autonomy", "1", "--yes")
	})
}

func TestEphemeral(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	t.Run("CLI-7 run --ephemeral brings its own station and leaves nothing", func(t *testing.T) {
		s := inspan(t, "run", "reader", "read", "--ephemeral", "--json", "--sandbox", "host", "--accept-lazy-fsync",
			"--agents", filepath.Join(d.dir, "agents"), "--scripts", filepath.Join(d.dir, "scripts"))
		if s.code != 0 || !strings.Contains(s.out, "completed") {
			t.Fatalf("exit %d\n%s%s", s.code, s.out, s.err)
		}
		_, rest, _ := strings.Cut(s.err, " of its own, in ")
		dir, _, _ := strings.Cut(rest, ",")
		if _, err := os.Stat(dir); dir == "" || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the folder %q is left: %v", dir, err)
		}
	})
	t.Run("CLI-7 no station is an error that says what to do, also with --detach", func(t *testing.T) {
		for _, args := range [][]string{{"runs"}, {"run", "reader", "x", "--detach"}} {
			s := inspan(t, append(args, "--server", "nats://127.0.0.1:1")...)
			if s.code != 1 || !strings.Contains(s.err, "inspan up") {
				t.Errorf("exit %d, %q", s.code, s.err)
			}
		}
		if s := inspan(t, "doctor", "--server", "nats://127.0.0.1:1"); s.code != 0 || !strings.Contains(s.out, "not reachable at nats://127.0.0.1:1") {
			t.Errorf("doctor: exit %d, %q", s.code, s.out)
		}
	})
	t.Run("CLI-7 SBX-20 the doctor tells of each sandbox what it enforces, and why not the rest", func(t *testing.T) {
		s := inspan(t, "doctor", "--json", "--server", "nats://127.0.0.1:1")
		seen := map[string]bool{}
		for _, f := range decode[[]struct {
			What, Hint string
			OK         bool
			Isolation  []sandbox.Capability `json:"walls"`
		}](t, s.out) {
			mode, ok := strings.CutPrefix(f.What, "sandbox ")
			if !ok {
				continue
			}
			seen[mode] = true
			if !f.OK {
				if f.Hint == "" || len(f.Isolation) > 0 {
					t.Errorf("%s does not work: got hint %q and walls %v", mode, f.Hint, f.Isolation)
				}
				continue
			}
			if len(f.Isolation) != len(sandbox.Isolations()) {
				t.Errorf("%s: got %d lines, want one for each wall", mode, len(f.Isolation))
			}
			for _, c := range f.Isolation {
				if c.Enforced == (c.How == "") || c.Enforced == (c.Why != "") {
					t.Errorf("%s: got %+v, want how or why", mode, c)
				}
			}
		}
		for _, mode := range []string{"bwrap", "landlock", "host"} {
			if !seen[mode] {
				t.Errorf("the doctor says nothing of %s", mode)
			}
		}
		if out := inspan(t, "doctor", "--server", "nats://127.0.0.1:1").out; !strings.Contains(out, "host does not isolate: use bwrap") || !strings.Contains(out, "enforces disk, wall") {
			t.Errorf("got %s", out)
		}
	})
	t.Run("CLI-7 SBX-18 the doctor tells whether git stays in its tree", func(t *testing.T) {
		type finding struct {
			What, State, Hint string
			OK                bool
		}
		for _, f := range decode[[]finding](t, inspan(t, "doctor", "--json", "--server", "nats://127.0.0.1:1").out) {
			if f.What == "git walls" {
				if f.State == "" || !f.OK && !strings.Contains(f.Hint, "docs/git.md") {
					t.Errorf("got %+v", f)
				}
				return
			}
		}
		t.Error("nothing is said of it")
	})
	t.Run("CLI-7 every command has help with an example", func(t *testing.T) {
		for _, c := range cli.Root().Commands() {
			if c.Example == "" || c.Short == "" {
				t.Errorf("%s has no example or no words", c.Name())
			}
			if s := inspan(t, c.Name(), "--help"); s.code != 0 || !strings.Contains(s.out, "Examples:") {
				t.Errorf("%s --help: exit %d %q", c.Name(), s.code, s.out)
			}
		}
	})
}
