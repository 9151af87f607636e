package recovery

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/backup"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// Words that are found wherever content is.
const (
	inTask, inAnswer, inTool, inFile = "zqtaskword", "zqanswerword", "zqtoolword", "zqfileword"
	inChild, inGate, inSession       = "zqchildword", "zqgateword", "zqsessionword"
	inPrompt, inPerson               = "zqpromptword", "zqpersonword"
	// What is deleted does not include notes of work items and mail.
	inNote, inMail = "zqnoteword", "zqmailword"
)

var (
	ofRuns    = []string{inTask, inAnswer, inTool, inFile, inChild, inGate}
	ofSession = []string{inSession, inPrompt}
	ofPerson  = []string{inPerson}
)

// forgot is what the command prints with --json.
type forgot struct {
	backup.Forgot
	Steps []string `json:"steps"`
}

func forget(t *testing.T, from, to string, args ...string) (f forgot) {
	t.Helper()
	out := inspan(t, 0, append([]string{"forget", from, to, "--station", "lab", "--json"}, args...)...)
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&f); err != nil {
		t.Fatal(err)
	}
	return f
}

// tells has a run answer, write and print words.
const tells = `turns:
  - when: {turn: 1}
    text: I answer ` + inAnswer + `.
    calls:
      - {name: write, input: {path: out.txt, content: "` + inFile + ` and more of it"}}
      - {name: bash, input: {command: "echo ` + inTool + `; head -c 70000 /dev/zero | tr '\\0' x; echo ` + inTool + `"}}
  - when: {turn: 2}
    text: "Done with ` + inAnswer + `."
`

// secrets fills a station with content and returns the run of its work item.
func secrets(t *testing.T, p *place) (worked string) {
	t.Helper()
	agent(t, p.dir, "teller", tells)
	p.mode = "follow"
	p.up()
	plan := &events.TaskPlan{Steps: []events.TaskStep{{ID: "one", Description: "begin"},
		{ID: "two", Description: "look after " + inChild, Child: "own", Needs: []string{"one"}}}}
	p.start(events.Task{ID: "secret", Agent: "teller", Task: "keep " + inTask, Plan: plan, By: "carol"})
	p.start(events.Task{ID: "gated", Agent: "careful", Task: "write", Autonomy: level(1), By: "carol"})
	p.start(events.Task{ID: "kept", Agent: "careful", Task: "write", Autonomy: level(1), By: "bob"})
	for id, reason := range map[string]string{"gated": "as " + inGate + " has it", "kept": ""} {
		s := p.await(id, "waiting", waiting)
		if _, err := p.c.Gates().Approve(p.ctx(), client.Decision{Run: id, Gate: s.Waiting()[0].ID, By: "dora", Reason: reason}); err != nil {
			t.Fatal(err)
		}
	}
	p.do(0, "session", "start", "desk", "--system", "Mind "+inPrompt)
	p.start(events.Task{ID: "talk", Agent: "loud", Task: "shout " + inSession, Session: "desk", By: "bob"})
	p.start(events.Task{ID: "hers", Agent: "loud", Task: "shout " + inPerson, Session: "her-desk", By: "dora"})
	p.start(events.Task{ID: "other", Agent: "loud", Task: "shout", By: "bob"})
	p.start(events.Task{ID: "open", Agent: "careful", Task: "write", Autonomy: level(1), By: "bob"})
	p.do(0, "work", "add", "A thing", "--id", "thing")
	p.do(0, "work", "note", "thing", "look at "+inNote)
	var item struct {
		Run string `json:"run"`
	}
	if err := json.NewDecoder(strings.NewReader(p.do(0, "sling", "thing", "careful", "--json"))).Decode(&item); err != nil {
		t.Fatal(err)
	}
	p.do(0, "mail", "register", "queue/builds")
	p.do(0, "mail", "send", "queue/builds", "The build "+inMail, "--by", "dora")
	for _, id := range []string{"secret", "gated", "talk", "hers", "other", "kept", item.Run} {
		if s := p.await(id, "ended", ended); s.Status != events.Completed {
			t.Fatalf("%s: %+v", id, s.Result)
		}
	}
	p.await("open", "waiting", waiting)
	for _, id := range []string{"desk", "her-desk"} {
		p.until("the turn in the session", func() bool { return strings.Contains(p.do(0, "session", "history", id), "shout") })
	}
	return item.Run
}

// TestForget deletes the content of runs, a session and a person, and looks at every byte of the station that is filled.
func TestForget(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab")
	worked := secrets(t, p)
	before := map[string][][]byte{"other": p.bytes("other"), "open": p.bytes("open"), "kept": p.bytes("kept")}
	whole := filepath.Join(t.TempDir(), "whole")
	p.do(0, "backup", whole)
	p.down()
	all := slices.Concat(ofRuns, ofSession, ofPerson)
	t.Run("PLUS-19a PLUS-19b PLUS-19c each word is found before", func(t *testing.T) {
		for _, dir := range []string{filepath.Join(p.dir, "store"), whole} {
			if found := words(t, dir, append([]string{inNote, inMail}, all...)); len(found) != len(all)+2 {
				t.Errorf("%s has only %v", dir, found)
			}
		}
	})
	names := []string{"--run", "secret", "--run", "gated", "--run", worked, "--session", "desk", "--person", "dora", "--reason", "request 17"}
	small := filepath.Join(t.TempDir(), "small")
	done := forget(t, whole, small, names...)
	t.Run("PLUS-19a PLUS-19c the output says what is gone, what stays and what is left to do", func(t *testing.T) {
		if len(done.Runs) != 6 || !slices.Equal(done.Sessions, []string{"desk", "her-desk"}) || done.Copy.Forgotten.Runs != 6 ||
			!slices.ContainsFunc(done.Workspaces, func(w string) bool { return w == "run/secret" }) {
			t.Errorf("%v %v %v", done.Runs, done.Sessions, done.Workspaces)
		}
		for _, log := range []string{"work/thing", "agent/queue_builds", "run/kept"} {
			if !slices.ContainsFunc(done.Stays, func(s backup.Stay) bool { return s.Log == log }) {
				t.Errorf("%s is not among what stays: %+v", log, done.Stays)
			}
		}
		if steps := strings.Join(done.Steps, "\n"); !strings.Contains(steps, "inspan restore "+small) || !strings.Contains(steps, "--run secret") {
			t.Error(steps)
		}
	})
	q := p.moved(small)
	t.Run("PLUS-19a what stands for a run says how it ended, and nothing of it starts again", func(t *testing.T) {
		for _, id := range done.Runs {
			s := q.await(id, "ended", ended)
			if s.Pruned == nil || !s.Pruned.Forgotten || len(q.bytes(id)) != 1 {
				t.Errorf("%s: pruned %+v, %d events", id, s.Pruned, len(q.bytes(id)))
			}
		}
		_, _ = q.c.Start(q.ctx(), events.Task{ID: "secret", Agent: "loud", Task: "another"}) // it may see the run first
		q.until("the refusal", func() bool { return strings.Contains(q.do(0, "dead", "list"), "duplicate_id") })
		for cmd, want := range map[string]string{"inspect": "deleted on request", "logs": "request 17"} {
			if out := q.do(0, cmd, "gated"); !strings.Contains(out, want) {
				t.Errorf("%s: %s", cmd, out)
			}
		}
		if out := q.do(4, "retry", "gated"); !strings.Contains(out, "deleted on request") {
			t.Error(out)
		}
		if out := q.do(0, "runs"); !strings.Contains(out, "secret") || !strings.Contains(out, "hers") || !strings.Contains(out, "other") {
			t.Error(out)
		}
		q.do(0, "tree", "secret")
		q.do(0, "audit", "--all")
	})
	t.Run("PLUS-19c a person is not named by what stands for their runs, and stays as who approved something of others", func(t *testing.T) {
		if stored := string(q.bytes("hers")[0]); strings.Contains(stored, "dora") {
			t.Error(stored)
		}
		if all := slices.Concat(q.bytes("kept")...); !strings.Contains(string(all), `"dora"`) {
			t.Errorf("%s", all)
		}
	})
	t.Run("PLUS-19a what was not named keeps its bytes, and goes on", func(t *testing.T) {
		for id, was := range before {
			if err := begins(q.bytes(id), was); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		q.approve(q.await("open", "waiting", waiting))
		if s := q.await("open", "ended", ended); s.Status != events.Completed {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("PLUS-19b a session of that name begins with nothing", func(t *testing.T) {
		if out := q.do(0, "session", "list"); strings.Contains(out, "desk") {
			t.Error(out)
		}
		q.start(events.Task{ID: "anew", Agent: "loud", Task: "shout", Session: "desk"})
		if s := q.await("anew", "ended", ended); s.Status != events.Completed || s.Created.History != nil || s.Created.SessionPrompt != "" {
			t.Errorf("%s, begins with %+v, %q", s.Status, s.Created.History, s.Created.SessionPrompt)
		}
		q.until("the turn in the session", func() bool { return strings.Contains(q.do(0, "session", "history", "desk"), "shout") })
		q.do(0, "audit", "--all")
	})
	q.down()
	t.Run("PLUS-19a PLUS-19b PLUS-19c none of the words is anywhere after", func(t *testing.T) {
		for _, dir := range []string{small, filepath.Join(q.dir, "store"), q.archive} {
			if found := words(t, dir, all); len(found) > 0 {
				t.Errorf("%s: %v", dir, found)
			}
		}
		if found := words(t, filepath.Join(q.dir, "store"), []string{inNote, inMail}); len(found) != 2 {
			t.Errorf("of what is to stay there is only %v", found)
		}
	})
	t.Run("PLUS-19a asked twice it finds nothing more, and an older backup may lack names", func(t *testing.T) {
		again := forget(t, whole, filepath.Join(t.TempDir(), "a"), names...)
		if !slices.Equal(again.Copy.Files, done.Copy.Files) {
			t.Errorf("%+v\n%+v", again.Copy.Files, done.Copy.Files)
		}
		twice := forget(t, small, filepath.Join(t.TempDir(), "b"), append(names, "--run", "never", "--allow-missing")...)
		if len(twice.Runs)+len(twice.Sessions) != 0 || twice.Copy.Log != done.Copy.Log || !slices.Contains(twice.Missing, "run never") ||
			!slices.Contains(twice.Already, "run secret") || !slices.Contains(twice.Already, "session desk") {
			t.Errorf("%+v", twice)
		}
	})
	t.Run("PLUS-19a a backup that was not copied brings all of it back", func(t *testing.T) {
		r := p.moved(whole)
		if s := r.await("gated", "ended", ended); s.Pruned != nil {
			t.Errorf("%+v", s.Pruned)
		}
	})
	t.Run("PLUS-19a PLUS-19b what is open, unknown, shared or damaged is refused, and nothing is written", func(t *testing.T) {
		to := filepath.Join(t.TempDir(), "to")
		refused := func(code int, want string, args ...string) {
			t.Helper()
			out := inspan(t, code, append([]string{"forget", whole, to, "--station", "lab"}, args...)...)
			if !strings.Contains(out, want) {
				t.Errorf("%v: %s", args, out)
			}
		}
		refused(4, "inspan stop open", "--run", "open")
		refused(4, "inspan stop open", "--person", "bob")
		refused(4, "--session desk", "--run", "talk")
		refused(5, "run never", "--run", "never")
		refused(5, "person nobody", "--person", "nobody")
		refused(2, "--run")
		refused(2, "a name is empty", "--run", "")
		refused(2, "--station lab", "--run", "gated", "--station", "other")
		inspan(t, 2, "forget", whole, small, "--run", "gated", "--station", "lab") // there is a copy
		refused(2, "the limit is 512", "--run", "gated", "--reason", strings.Repeat("x", events.MaxForgetReason+1))
		if err := os.WriteFile(filepath.Join(whole, "timers.jsonl"), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(1, "timers.jsonl", "--run", "gated")
		if _, err := os.Stat(to); err == nil {
			t.Error("something was written")
		}
	})
}

// TestForgetFork deletes a run from which another one was forked.
func TestForgetFork(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab")
	p.mode = "follow"
	p.up()
	p.start(events.Task{ID: "first", Agent: "loud", Task: "shout " + inTask})
	first := *p.await("first", "ended", ended).EndedAt
	p.do(0, "fork", "first", "--say", "again", "--id", "second")
	second := *p.await("second", "ended", ended).EndedAt
	whole := filepath.Join(t.TempDir(), "whole")
	p.do(0, "backup", whole)
	p.down()
	t.Run("PLUS-19a a fork goes with the run that it began with, which stays without it", func(t *testing.T) {
		both := forget(t, whole, filepath.Join(t.TempDir(), "a"), "--run", "first")
		if !slices.Equal(both.Runs, []string{"first", "second"}) {
			t.Errorf("%v", both.Runs)
		}
		one := forget(t, whole, filepath.Join(t.TempDir(), "b"), "--run", "second")
		if !slices.Equal(one.Runs, []string{"second"}) {
			t.Errorf("%v", one.Runs)
		}
	})
	t.Run("PLUS-19a of a run that was left out to make room its backup is named, and what else has its content goes", func(t *testing.T) {
		m, err := backup.ReadManifest(whole)
		if err != nil {
			t.Fatal(err)
		}
		small, to := filepath.Join(t.TempDir(), "small"), filepath.Join(t.TempDir(), "b")
		if m = pruned(t, whole, small, m.Cut.Sub(first.Add(second.Sub(first)/2)).String()); m.Pruned != 1 {
			t.Fatalf("%+v", m)
		}
		done := forget(t, small, to, "--run", "first")
		if !slices.Equal(done.Elsewhere, []string{"first"}) || !slices.Equal(done.Runs, []string{"second"}) ||
			!slices.Equal(done.Workspaces, []string{"run/first"}) || !strings.Contains(strings.Join(done.Steps, "\n"), "older backups") {
			t.Errorf("%+v", done)
		}
		if found := words(t, to, []string{inTask}); len(found) > 0 || len(words(t, small, []string{inTask})) == 0 {
			t.Errorf("%v", found)
		}
	})
}
