package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestWork(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	say := func(t *testing.T, code int, words []string, args ...string) said {
		t.Helper()
		sub := *d
		sub.t = t
		return sub.want(code, words, args...)
	}
	t.Run("CLI-11 without items the list says how to make one, and an unknown one is not found", func(t *testing.T) {
		say(t, 0, []string{`inspan work add "TITLE"`}, "work", "list")
		say(t, 5, []string{"inspan work list"}, "work", "show", "nope")
		say(t, 5, []string{"inspan run AGENT TASK"}, "sling", "nope", "reader")
		say(t, 4, []string{"unknown_work"}, "work", "close", "nope")
		say(t, 2, []string{"is not an id"}, "work", "show", "a.b")
	})
	t.Run("CLI-11 what is wrong is said before anything is published", func(t *testing.T) {
		say(t, 2, []string{"title has the character"}, "work", "add", "a\x1b[2J")
		say(t, 2, []string{"want a title"}, "work", "add")
		say(t, 2, []string{"leave the title"}, "work", "add", "x", "--from", "y")
		say(t, 2, []string{"no such file"}, "work", "add", "--from", filepath.Join(t.TempDir(), "none"))
		say(t, 2, []string{"text has"}, "work", "add", "x", "--text", strings.Repeat("x", events.MaxWorkText+1))
		say(t, 0, []string{"No work items"}, "work", "list")
	})
	t.Run("WORK-3 WORK-5 WORK-7 WORK-8 an item is added, assigned, refused to another, cleared and slung, and its run closes it", func(t *testing.T) {
		say(t, 0, []string{"Work item", "inspan sling login"}, "work", "add", "Fix the login", "--id", "login", "--text", "It fails.", "--acceptance", "one can log in", "--label", "bug")
		say(t, 4, []string{"work_exists"}, "work", "add", "Again", "--id", "login")
		say(t, 4, []string{"unknown_agent", "readr"}, "work", "assign", "login", "readr")
		say(t, 0, []string{"holds login until", "inspan sling login reader"}, "work", "assign", "login", "reader", "--within", "1h")
		say(t, 4, []string{"work_taken", "agent reader holds"}, "sling", "login", "broken")
		say(t, 0, []string{"bound", "reader"}, "work", "list")
		say(t, 0, []string{"is free"}, "work", "unassign", "login", "--reason", "not now")
		say(t, 0, nil, "work", "assign", "login", "reader", "--within", "1h")
		slung := decode[struct {
			events.WorkItem
			Run string
		}](t, say(t, 0, nil, "sling", "login", "reader", "--json").out)
		w, run := slung.WorkItem, slung.Run
		say(t, 0, nil, "watch", run)
		for w.Status != events.WorkIsClosed { // its end is recorded right after
			pause(t)
			w = decode[events.WorkItem](t, say(t, 0, nil, "work", "show", "login", "--json").out)
		}
		if w.Last.Run != run || w.Last.Code != events.WorkCompleted || w.Epoch != 2 {
			t.Errorf("%+v", w)
		}
		say(t, 0, []string{"No work items"}, "work", "list")
		say(t, 0, []string{"closed", "Fix the login"}, "work", "list", "--all")
		say(t, 0, []string{"Done when:", "one can log in", "work item closed", "binding 1 ended (unassigned) not now"}, "work", "show", "login")
	})
	t.Run("WORK-2 the item of a run that fails is free again and says why", func(t *testing.T) {
		say(t, 0, nil, "work", "add", "Break", "--id", "break")
		say(t, 0, nil, "sling", "break", "broken")
		var w events.WorkItem
		for w.Last == nil {
			w = decode[events.WorkItem](t, say(t, 0, nil, "work", "show", "break", "--json").out)
		}
		if w.Status != events.WorkIsOpen || w.Last.Code != events.WorkFailed || !strings.Contains(w.Last.Reason, "the model is gone") {
			t.Errorf("%+v", w.Last)
		}
		say(t, 0, []string{"Noted"}, "work", "note", "break", "the model is gone")
		say(t, 0, []string{"open (failed)"}, "work", "list")
		say(t, 0, []string{"is closed"}, "work", "close", "break", "--reason", "not wanted")
	})
	t.Run("WORK-6 a formula is attached to a binding", func(t *testing.T) {
		dir := t.TempDir()
		putFile(t, filepath.Join(dir, "two.formula.toml"), "formula = \"two\"\n[[steps]]\nid = \"a\"\ntitle = \"look\"\n[[steps]]\nid = \"b\"\ntitle = \"tell\"\nneeds = [\"a\"]\n")
		say(t, 0, nil, "work", "add", "Two", "--id", "two")
		w := decode[events.WorkItem](t, say(t, 0, nil, "sling", "two", "reader", "--formula", filepath.Join(dir, "two.formula.toml"), "--json").out)
		for w.Last == nil {
			w = decode[events.WorkItem](t, say(t, 0, nil, "work", "show", "two", "--json").out)
		}
		say(t, 0, []string{"two"}, "inspect", w.Last.Run)
		t.Run("WORK-12 each step of its run has a record of harness work", func(t *testing.T) {
			say(t, 0, []string{"definition", "reader", "step", "look", "tell"}, "work", "record", w.Last.Run)
			all := decode[[]run.WorkRecord](t, say(t, 0, nil, "work", "record", w.Last.Run, "--json").out)
			if len(all) != 2 || all[0].StepID != "a" || all[1].StepID != "b" || !strings.HasPrefix(all[1].WorkID, events.WorkStepPrefix) || all[1].AgentName != "reader" ||
				all[1].AgentID != "reader" || all[1].Context[run.WorkContextStep] != "b" || len(all[1].Context) != 3 {
				t.Errorf("%+v", all)
			}
			all = decode[[]run.WorkRecord](t, say(t, 0, nil, "work", "record", w.Last.Run, "--step", "b", "--json").out)
			if len(all) != 1 || all[0].StepID != "b" {
				t.Errorf("%+v", all)
			}
			say(t, 2, []string{"has no step", "a, b"}, "work", "record", w.Last.Run, "--step", "c")
			say(t, 5, []string{"inspan runs"}, "work", "record", "run-nope")
		})
	})
	t.Run("WORK-1 items of a file are made once", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "TODO.md")
		putFile(t, file, "- [ ] one\n- [x] two\n- [ ] three\n")
		say(t, 0, []string{"would be made"}, "work", "add", "--from", file, "--dry-run")
		say(t, 0, []string{"No work items"}, "work", "list")
		say(t, 0, []string{"made", "one", "three"}, "work", "add", "--from", file, "--label", "todo")
		say(t, 0, []string{"exists"}, "work", "add", "--from", file)
		all := decode[[]events.WorkItem](t, say(t, 0, nil, "work", "list", "--label", "todo", "--free", "--json").out)
		if len(all) != 2 || all[0].Spec.Source == "" {
			t.Errorf("%+v", all)
		}
	})
}
