package approval_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/approval"
	"github.com/inspan/inspan/pkg/events"
)

// keyOf makes a key whose public half is in dir as that of name.
func keyOf(t *testing.T, dir, name string) approval.Key {
	t.Helper()
	k, err := approval.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := k.Save(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+approval.PublicExt, filepath.Join(dir, name+approval.PublicExt)); err != nil {
		t.Fatal(err)
	}
	loaded, err := approval.LoadKey(path)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

func sign(t *testing.T, k approval.Key, s approval.Statement) string {
	t.Helper()
	signature, err := k.Sign(s)
	if err != nil {
		t.Fatal(err)
	}
	return signature
}

var hash = strings.Repeat("ab", 32)

func TestVerify(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	anna, bert := keyOf(t, dir, "anna"), keyOf(t, dir, "bert")
	keys, err := approval.LoadKeys(dir)
	if err != nil || keys.Len() != 2 {
		t.Fatalf("%d keys, %v", keys.Len(), err)
	}
	said := approval.Statement{Station: "s1", Run: "r1", Gate: "g-1", Decision: approval.Approve, ProposalHash: hash, Reason: "looks good"}
	signature := sign(t, anna, said)
	t.Run("SAFE-9 a signature is verified with the public key alone, and tells who signed", func(t *testing.T) {
		t.Parallel()
		if name, err := keys.Verify(said, anna.ID(), signature); err != nil || name != "anna" {
			t.Errorf("%q, %v", name, err)
		}
	})
	t.Run("SAFE-9 it is good for no other station, run, gate, decision, action or reason", func(t *testing.T) {
		t.Parallel()
		for i, change := range []func(*approval.Statement){
			func(s *approval.Statement) { s.Station = "s2" }, func(s *approval.Statement) { s.Run = "r2" }, func(s *approval.Statement) { s.Gate = "g-2" },
			func(s *approval.Statement) { s.Decision = approval.Reject }, func(s *approval.Statement) { s.ProposalHash = strings.Repeat("ac", 32) },
			func(s *approval.Statement) { s.Reason = "looks bad" }, func(s *approval.Statement) { s.Reason = "" }, func(s *approval.Statement) { s.Gate = "g\n1" },
			func(s *approval.Statement) { s.Decision = "maybe" }, func(s *approval.Statement) { s.Reason = strings.Repeat("x", approval.MaxReason+1) },
		} {
			other := said
			change(&other)
			if _, err := keys.Verify(other, anna.ID(), signature); !errors.Is(err, approval.ErrBadSignature) {
				t.Errorf("change %d: %v", i, err)
			}
		}
	})
	t.Run("SAFE-9 no signature, another's key, an unknown key and nonsense are told apart", func(t *testing.T) {
		t.Parallel()
		stranger := keyOf(t, t.TempDir(), "stranger")
		for _, c := range []struct {
			key, signature string
			want           error
		}{
			{anna.ID(), "", approval.ErrUnsigned}, {bert.ID(), signature, approval.ErrBadSignature},
			{stranger.ID(), sign(t, stranger, said), approval.ErrUnknownKey}, {"", signature, approval.ErrUnknownKey},
			{anna.ID(), "%%%", approval.ErrBadSignature}, {anna.ID(), signature[:40], approval.ErrBadSignature},
		} {
			if _, err := keys.Verify(said, c.key, c.signature); !errors.Is(err, c.want) {
				t.Errorf("%s %s: %v, want %v", c.key, c.signature, err, c.want)
			}
		}
	})
	t.Run("SAFE-9 a recorded answer is verified from the event alone", func(t *testing.T) {
		t.Parallel()
		a := events.GateAnswer{Event: "gate_approved", Gate: "g-1", By: "anna", Assurance: events.AssuranceSignature, Reason: "looks good",
			ProposalHash: hash, Key: anna.ID(), Signature: signature}
		if name, err := keys.VerifyEvent(eventOf(t, a, "s1", "r1")); err != nil || name != "anna" {
			t.Errorf("%q, %v", name, err)
		}
		if _, err := keys.VerifyEvent(eventOf(t, a, "s1", "r2")); !errors.Is(err, approval.ErrBadSignature) {
			t.Errorf("of another run: %v", err)
		}
		for _, change := range []func(*events.GateAnswer){func(a *events.GateAnswer) { a.By = "bert" }, func(a *events.GateAnswer) { a.Assurance = "subject" },
			func(a *events.GateAnswer) { a.Reason = "" }} {
			b := a
			change(&b)
			if _, err := keys.VerifyEvent(eventOf(t, b, "s1", "r1")); !errors.Is(err, approval.ErrBadSignature) {
				t.Errorf("%+v: %v", b, err)
			}
		}
		a.Key, a.Signature = "", ""
		if _, err := keys.VerifyEvent(eventOf(t, a, "s1", "r1")); !errors.Is(err, approval.ErrUnsigned) {
			t.Errorf("unsigned: %v", err)
		}
	})
	t.Run("SAFE-9 PLUS-14 a signature covers what is granted for later calls", func(t *testing.T) {
		t.Parallel()
		wide := said
		wide.Always, wide.Pattern, wide.Term = events.GrantSession, "go test *", time.Hour
		signature := sign(t, anna, wide)
		a := events.GateAnswer{Event: "gate_approved", Gate: "g-1", By: "anna", Assurance: events.AssuranceSignature, Reason: "looks good",
			ProposalHash: hash, Key: anna.ID(), Signature: signature,
			Grant: &events.Grant{Scope: events.GrantSession, Allowance: events.Allowance{Pattern: "go test *"}, TermMS: time.Hour.Milliseconds()}}
		if name, err := keys.VerifyEvent(eventOf(t, a, "s1", "r1")); err != nil || name != "anna" {
			t.Errorf("%q, %v", name, err)
		}
		for _, change := range []func(*events.Grant){func(g *events.Grant) { g.Pattern = "go *" }, func(g *events.Grant) { g.TermMS *= 2 },
			func(g *events.Grant) { g.Scope = events.GrantRun }, func(g *events.Grant) { *g = events.Grant{} }} {
			b, g := a, *a.Grant
			change(&g)
			b.Grant = &g
			if _, err := keys.VerifyEvent(eventOf(t, b, "s1", "r1")); !errors.Is(err, approval.ErrBadSignature) {
				t.Errorf("%+v: %v", g, err)
			}
		}
		if _, err := keys.Verify(said, anna.ID(), signature); !errors.Is(err, approval.ErrBadSignature) {
			t.Errorf("without what is granted: %v", err)
		}
	})
}

func eventOf(t *testing.T, a events.GateAnswer, station, run string) events.Event {
	t.Helper()
	data, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return events.Event{Type: events.GateApproved.Type(), Identity: events.Identity{Station: station, Run: run}, Data: data}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-11 a key is not printed, is for its owner only and is never written over", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "anna.key")
		k, err := approval.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Save(path); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		if err := k.Save(path); err == nil {
			t.Error("it was written over")
		}
		for _, text := range []string{fmt.Sprint(k), fmt.Sprintf("%+v %#v %s", k, k, &k)} {
			if !strings.Contains(text, k.ID()) || len(text) > 120 {
				t.Errorf("printed as %s", text)
			}
		}
	})
	t.Run("bad input: what is no key, no folder of keys, or one key twice", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if _, err := approval.LoadKeys(dir); err == nil {
			t.Error("an empty folder was taken")
		}
		k := keyOf(t, dir, "anna")
		b, err := os.ReadFile(filepath.Join(dir, "anna.pub"))
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"copy.pub": string(b), "nonsense.pub": "x", "a b.pub": string(b)} {
			one := t.TempDir()
			for file, content := range map[string]string{"anna.pub": string(b), name: text} {
				if err := os.WriteFile(filepath.Join(one, file), []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := approval.LoadKeys(one); err == nil {
				t.Errorf("%s was taken", name)
			}
		}
		if _, err := approval.LoadKey(filepath.Join(dir, "anna.pub")); err == nil {
			t.Error("a public key signs")
		}
		if _, err := k.Sign(approval.Statement{}); err == nil {
			t.Error("nothing was signed")
		}
	})
}
