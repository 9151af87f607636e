package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// gateOf waits until a run waits at a gate and returns RUN/GATE.
func (d *desk) gateOf(runID string) string {
	d.t.Helper()
	for ; ; pause(d.t) {
		for _, g := range decode[[]client.Waiting](d.t, d.want(0, nil, "gates", "--json").out) {
			if g.Run.HarnessID == runID {
				return runID + "/" + g.Gate.ID
			}
		}
	}
}

func TestTravel(t *testing.T) {
	d := newDesk(t)
	policy := filepath.Join(d.dir, "policy.yaml")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(policy, "version: 1\nrules:\n  - {id: look-first, tool: read, action: ask, reason: notes are private}\n")
	key, approvers := filepath.Join(d.dir, "anna.key"), filepath.Join(d.dir, "approvers")
	if s := inspan(t, "keygen", key); s.code != 0 {
		t.Fatal(s.err)
	}
	if err := os.Mkdir(approvers, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(key+".pub", filepath.Join(approvers, "anna.pub")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("INSPAN_APPROVER_KEYS", approvers)
	t.Setenv("INSPAN_POLICY", policy)
	d.up()
	d.want(0, nil, "run", "reader", "read the note", "--id", "one", "--detach")
	gate := d.gateOf("one")

	t.Run("SAFE-10 gates shows votes and expiry; what cannot be the arguments is refused before it is sent", func(t *testing.T) {
		d.want(0, words{"VOTES", "0/1", "EXPIRES", "never"}, "gates")
		for _, bad := range []string{"[]", "hello", "null"} {
			d.want(2, words{"JSON object"}, "approve", gate, "--edit", bad)
		}
		d.want(2, nil, "approve", gate, "--edit", "{}", "--editor")
		d.want(4, words{"invalid_input", "path"}, "approve", gate, "--edit", `{"nope":1}`)
		t.Setenv("VISUAL", "")
		t.Setenv("EDITOR", "")
		d.want(1, words{"EDITOR"}, "approve", gate, "--editor")
		t.Setenv("EDITOR", "true")
		d.want(1, words{"nothing was changed"}, "approve", gate, "--editor")
	})
	t.Run("SAFE-10 SAFE-9 an edited approval is signed, verified from the log alone, and a log with other arguments is wrong", func(t *testing.T) {
		script := filepath.Join(d.dir, "edit.sh")
		write(script, "sed -i s/note.txt/other.txt/ \"$1\"\n")
		t.Setenv("EDITOR", "sh "+script)
		d.want(0, words{"approved by anna"}, "approve", gate, "--editor", "--sign", key)
		for decode[run.State](t, d.want(0, nil, "inspect", "one", "--json").out).Status != events.Completed {
			pause(t)
		}
		s := decode[run.State](t, d.want(0, nil, "inspect", "one", "--json").out)
		if r := s.ToolCallHistory.At(0); !r.Edited || !strings.Contains(string(r.Arguments), "other.txt") {
			t.Errorf("%+v", r)
		}
		d.want(0, words{"1 with a verified signature"}, "audit", "one", "--approver-keys", approvers, "--only-signed")
	})
	last := decode[run.State](t, d.want(0, nil, "inspect", "one", "--json").out).Sequence
	t.Run("PLUS-1b inspect --at shows what was known then, and says where the log ends", func(t *testing.T) {
		d.want(0, words{"As it was after event 7", "waits for a person", "inspan fork one --at 7"}, "inspect", "one", "--at", "7")
		s := decode[run.State](t, d.want(0, nil, "inspect", "one", "--at", "7", "--json").out)
		if s.Sequence != 7 || s.Status != events.Running || len(s.Waiting()) != 1 {
			t.Errorf("%d %s %v", s.Sequence, s.Status, s.Waiting())
		}
		d.want(2, words{"beyond its end"}, "inspect", "one", "--at", "999")
		d.want(5, words{"not found"}, "inspect", "none", "--at", "1")
	})
	t.Run("PLUS-1a fork starts a new run there, and refuses what cannot be forked", func(t *testing.T) {
		d.want(0, words{"Forked from one after event 7", "new, empty workspace", "inspan logs side --follow"}, "fork", "one", "--at", "7", "--id", "side", "--say", "Leave it.")
		for !decode[run.State](t, d.want(0, nil, "inspect", "side", "--json").out).Status.Ended() {
			pause(t)
		}
		d.want(0, words{"Forked from", "one after event 7", "run/side"}, "inspect", "side")
		d.want(0, words{"as a fork of run one after event 7", "takes over the state"}, "logs", "side")
		d.want(2, words{"beyond its end"}, "fork", "one", "--at", "999")
		d.want(4, words{"bad_fork", "had ended"}, "fork", "one", "--at", "0")
		d.want(5, words{"not found"}, "fork", "none")
	})
	t.Run("PERS-10 checkpoints lists those of a run, by name for people and programs; inspect and fork take a name", func(t *testing.T) {
		all := decode[[]run.Checkpoint](t, d.want(0, nil, "checkpoints", "one", "--json").out)
		if len(all) != 1 || all[0].Name != "step-step-1" || all[0].Number != 1 || all[0].Sequence >= last {
			t.Fatalf("%+v", all)
		}
		d.want(0, words{"NUMBER", "EVENT", "step-step-1"}, "checkpoints", "one")
		d.want(0, words{"inspan checkpoints one"}, "inspect", "one")
		s := decode[run.State](t, d.want(0, nil, "inspect", "one", "--at", "step-step-1", "--json").out)
		if s.Sequence != all[0].Sequence || s.Status != events.Running {
			t.Errorf("%d %s", s.Sequence, s.Status)
		}
		d.want(0, words{fmt.Sprintf("Forked from one after event %d", all[0].Sequence)}, "fork", "one", "--at", "step-step-1", "--id", "restored")
		for s := s; s.Status != events.Completed; s = decode[run.State](t, d.want(0, nil, "inspect", "restored", "--json").out) {
			pause(t)
			if s.Status == events.Failed {
				t.Fatalf("%+v", s.Result)
			}
		}
		d.want(2, words{`no checkpoint "step-x"`, "inspan checkpoints one"}, "fork", "one", "--at", "step-x")
		d.want(5, words{"not found"}, "checkpoints", "none")
	})
	t.Run("PLUS-6 replay-test passes what was recorded, and fails with the line where a policy or the log changed", func(t *testing.T) {
		logs := filepath.Join(d.dir, "logs")
		if err := os.Mkdir(logs, 0o755); err != nil {
			t.Fatal(err)
		}
		log := d.want(0, nil, "export", "one").out
		write(filepath.Join(logs, "one.jsonl"), log)
		write(filepath.Join(logs, "side.jsonl"), d.want(0, nil, "export", "side").out)
		if s := inspan(t, "replay-test", logs); s.code != 0 || strings.Count(s.out, "as they were") != 2 {
			t.Errorf("exit %d\n%s%s", s.code, s.out, s.err)
		}
		other := filepath.Join(d.dir, "other.yaml")
		write(other, "version: 1\nrules:\n  - {id: never, tool: read, action: deny, reason: notes are secret}\n")
		s := inspan(t, "replay-test", logs, "--policy", other)
		if s.code != 1 || !strings.Contains(s.out, "run one, event 7 (gate.opened)") || !strings.Contains(s.out, "never") {
			t.Errorf("exit %d\n%s%s", s.code, s.out, s.err)
		}
		s = inspan(t, "replay-test", logs, "--policy", other, "--json")
		rows := decode[[]struct {
			OK      bool
			Changes []struct{ Sequence uint64 }
		}](t, s.out)
		if len(rows) != 2 || rows[0].OK || rows[0].Changes[0].Sequence != 7 {
			t.Errorf("%s", s.out)
		}
		write(filepath.Join(logs, "one.jsonl"), strings.Replace(log, "other.txt", "third.txt", 1))
		if s := inspan(t, "replay-test", filepath.Join(logs, "one.jsonl")); s.code != 1 || !strings.Contains(s.out, "refused") {
			t.Errorf("exit %d\n%s%s", s.code, s.out, s.err)
		}
		for code, argv := range map[int][]string{2: {"replay-test"}, 5: {"replay-test", filepath.Join(d.dir, "nowhere")}} {
			if s := inspan(t, argv...); s.code != code {
				t.Errorf("%v: exit %d, want %d: %s", argv, s.code, code, s.err)
			}
		}
		if last == 0 {
			t.Error("the run has no events")
		}
	})
}
