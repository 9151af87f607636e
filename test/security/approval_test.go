package security

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/approval"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// keyring makes keys; the public halves of those that are known are in dir.
func keyring(t *testing.T, known ...string) (dir string, keys map[string]approval.Key) {
	t.Helper()
	dir, keys = t.TempDir(), map[string]approval.Key{}
	for _, name := range append(known, "stranger") {
		k, err := approval.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		keys[name] = k
		if name == "stranger" {
			continue
		}
		path := filepath.Join(t.TempDir(), name)
		if err := errors.Join(k.Save(path), os.Rename(path+approval.PublicExt, filepath.Join(dir, name+approval.PublicExt))); err != nil {
			t.Fatal(err)
		}
	}
	return dir, keys
}

// court is a station and a run that waits at its gate.
type court struct {
	*aviary
	operator *client.Client
	st       *jet.Station
	letters  chan kernel.DeadLetter
}

func newCourt(t *testing.T, change func(*service.Config)) *court {
	t.Helper()
	c := &court{aviary: newAviary(t, change), letters: make(chan kernel.DeadLetter, 64)} // more than a test provokes
	c.operator, c.st = c.as("operator")
	stop, err := c.st.WatchSubject("station.s1.dead.*", func(_ string, data []byte) {
		var d kernel.DeadLetter
		if json.Unmarshal(data, &d) == nil {
			c.letters <- d
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return c
}

// waiting starts a run and returns the gate before its only step.
func (c *court) waiting(t *testing.T, id string) *run.Gate {
	t.Helper()
	one := 1
	if _, err := c.operator.Start(within(t), events.Task{ID: id, Agent: "talker", Task: "go", Autonomy: &one}); err != nil {
		t.Fatal(err)
	}
	for item, err := range c.operator.Watch(within(t), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if len(item.State.Gates) > 0 {
			return item.State.Gates[0]
		}
	}
	t.Fatal("no gate was opened")
	return nil
}

// refuses sends an answer as it stands and wants it on the dead-letter list with a code.
func (c *court) refuses(t *testing.T, code, subject string, a events.Answer) {
	t.Helper()
	b, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.st.Publish(within(t), subject, b, nil); err != nil {
		t.Fatal(err)
	}
	select {
	case d := <-c.letters:
		if d.Code != code || d.Hint == "" || d.Subject != subject {
			t.Errorf("got %s on %s (%s; %s), want %s with a hint", d.Code, d.Subject, d.Reason, d.Hint, code)
		}
	case <-within(t).Done():
		t.Fatalf("no one refused it; want %s", code)
	}
}

func signed(t *testing.T, k approval.Key, s approval.Statement) events.Answer {
	t.Helper()
	signature, err := k.Sign(s)
	if err != nil {
		t.Fatal(err)
	}
	return events.Answer{Decision: s.Decision, Reason: s.Reason, ProposalHash: s.ProposalHash, Key: k.ID(), Signature: signature}
}

func TestSignedAnswers(t *testing.T) {
	dir, keys := keyring(t, "anna", "bert")
	c := newCourt(t, func(cfg *service.Config) { cfg.ApproverKeys, cfg.OnlySigned = dir, true })
	gate, other := c.waiting(t, "r1"), c.waiting(t, "r2")
	said := approval.Statement{Station: "s1", Run: "r1", Gate: gate.ID, Decision: approval.Approve, ProposalHash: gate.Hash, Reason: "seen"}
	good := signed(t, keys["anna"], said)
	on := func(runID string, g *run.Gate) string { return events.GateSubject("s1", runID, g.ID) }
	t.Run("SAFE-9 GATE-8 forged, replayed, stale and unsigned answers are refused with a code, and the gate still waits", func(t *testing.T) {
		c.refuses(t, "unsigned_answer", on("r1", gate), events.Answer{Decision: "approve", By: "anna", ProposalHash: gate.Hash})
		c.refuses(t, "unknown_signer", on("r1", gate), signed(t, keys["stranger"], said))
		forged := signed(t, keys["stranger"], said)
		forged.Key = keys["anna"].ID()
		c.refuses(t, "bad_signature", on("r1", gate), forged)
		c.refuses(t, "bad_signature", on("r2", other), good) // replayed at another gate
		turned := good
		turned.Decision = approval.Reject
		c.refuses(t, "bad_signature", on("r1", gate), turned)
		reworded := good
		reworded.Reason = "never seen"
		c.refuses(t, "bad_signature", on("r1", gate), reworded)
		bare := good
		bare.ProposalHash = ""
		c.refuses(t, "bad_signature", on("r1", gate), bare)
		stale := said
		stale.ProposalHash = strings.Repeat("0", 64)
		c.refuses(t, "stale_answer", on("r1", gate), signed(t, keys["anna"], stale))
		for _, id := range []string{"r1", "r2"} {
			if s, err := c.operator.State(within(t), id); err != nil || s.Gates[0].Status != run.GatePending {
				t.Fatalf("gate of %s: %+v, %v", id, s.Gates, err)
			}
		}
	})
	t.Run("SAFE-9 GATE-5 a signed answer counts as its signer's and verifies offline; again and late it is refused", func(t *testing.T) {
		key := keys["anna"]
		s, err := c.operator.Gates().Approve(within(t), client.Decision{Run: "r1", Gate: gate.ID, Reason: "seen", Sign: &key})
		if err != nil {
			t.Fatal(err)
		}
		if g := s.Gate(gate.ID); g.Status != run.GateApproved || g.By != "anna" {
			t.Fatalf("%+v", g)
		}
		c.refuses(t, "gate_closed", on("r1", gate), good)
		ended(t, c.operator, "r1")
		c.refuses(t, "gate_closed", on("r1", gate), good)
		known, err := approval.LoadKeys(dir)
		if err != nil {
			t.Fatal(err)
		}
		verified := 0
		for item, err := range c.operator.Events(within(t), "r1", 0) {
			if err != nil {
				t.Fatal(err)
			}
			if k, _ := item.Event.Kind(); k != events.GateApproved {
				continue
			}
			if name, err := known.VerifyEvent(item.Event); err != nil || name != "anna" {
				t.Errorf("%q, %v", name, err)
			}
			verified++
		}
		if verified != 1 {
			t.Errorf("%d answers are recorded, want 1", verified)
		}
	})
	t.Run("SAFE-9 a run that has ended takes no answer", func(t *testing.T) {
		if _, err := c.operator.Control(within(t), "r2", events.Control{Action: "stop"}); err != nil {
			t.Fatal(err)
		}
		late := said
		late.Run, late.Gate, late.ProposalHash = "r2", other.ID, other.Hash
		c.refuses(t, "run_ended", on("r2", other), signed(t, keys["bert"], late))
	})
}

func TestSubjectsOfApprovers(t *testing.T) {
	dir, keys := keyring(t, "anna", "bert")
	c := newCourt(t, func(cfg *service.Config) { cfg.ApproverKeys = dir })
	assurance := func(t *testing.T, id string) (by, assurance string) {
		t.Helper()
		for item, err := range c.operator.Events(within(t), id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if a, ok := item.Payload.(*events.GateApprovedData); ok {
				return a.By, a.Assurance
			}
		}
		t.Fatal("no answer is recorded")
		return "", ""
	}
	_, anna := c.as("anna")
	t.Run("SAFE-9 GATE-9 an answer in a name is that user's, who can give none in another's", func(t *testing.T) {
		gate := c.waiting(t, "s1")
		subject := events.GateSubject("s1", "s1", gate.ID)
		for _, as := range []string{"", ".bert", ".operator"} {
			if err := anna.Publish(within(t), subject+as, []byte(`{"decision":"approve"}`), nil); !errors.Is(err, jet.ErrDenied) {
				t.Errorf("anna on %s: %v", subject+as, err)
			}
		}
		if err := anna.Publish(within(t), subject+".anna", []byte(`{"decision":"approve","by":"bert"}`), nil); err != nil {
			t.Fatal(err)
		}
		ended(t, c.operator, "s1")
		if by, how := assurance(t, "s1"); by != "anna" || how != events.AssuranceSubject {
			t.Errorf("by %s, %s", by, how)
		}
	})
	t.Run("SAFE-9 who may answer in no one's name only claims one, and the event says so", func(t *testing.T) {
		gate := c.waiting(t, "s2")
		if _, err := c.operator.Gates().Approve(within(t), client.Decision{Run: "s2", Gate: gate.ID, By: "anna"}); err != nil {
			t.Fatal(err)
		}
		if by, how := assurance(t, "s2"); by != "anna" || how != events.AssuranceNone {
			t.Errorf("by %s, %s", by, how)
		}
	})
	t.Run("SAFE-9 a signature does not let one answer in the name of another's subject", func(t *testing.T) {
		gate := c.waiting(t, "s3")
		said := approval.Statement{Station: "s1", Run: "s3", Gate: gate.ID, Decision: approval.Approve, ProposalHash: gate.Hash}
		b, err := json.Marshal(signed(t, keys["bert"], said))
		if err != nil {
			t.Fatal(err)
		}
		subject := events.GateSubject("s1", "s3", gate.ID) + ".anna"
		if err := anna.Publish(within(t), subject, b, nil); err != nil {
			t.Fatal(err)
		}
		select {
		case d := <-c.letters:
			if d.Code != "bad_signature" {
				t.Errorf("%+v", d)
			}
		case <-within(t).Done():
			t.Fatal("no one refused it")
		}
	})
}
