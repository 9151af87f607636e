package audit_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestAudit(t *testing.T) {
	t.Parallel()
	b := runtest.New("demo", "r")
	big := runtest.Turn(1, "a", "long")
	big.TextRef = &events.Ref{SHA256: strings.Repeat("ab", 32), Size: 9, Type: "text"}
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"), big)
	take := func(cfg audit.Config, change func(i int, r *kernel.Record)) audit.Report {
		a := audit.New(cfg)
		for i, f := range b.Events() {
			r := kernel.Record{Seq: uint64(10 + i), Bytes: f}
			if change != nil {
				change(i, &r)
			}
			a.Event(t.Context(), r)
		}
		return a.End()
	}
	t.Run("SAFE-3 a referenced object that is gone or has other bytes is named with its event", func(t *testing.T) {
		t.Parallel()
		gone := audit.Config{Object: func(context.Context, events.Ref) error { return errors.New("not found") }}
		if r := take(gone, nil); r.Sound || r.First.Sequence != 6 || r.First.Seq != 15 || !strings.Contains(r.First.Why, "abababab") {
			t.Errorf("%+v", r.First)
		}
		there := audit.Config{Object: func(context.Context, events.Ref) error { return nil }}
		if r := take(there, nil); !r.Sound || r.Objects != 1 || r.Unseen != 0 {
			t.Errorf("%+v", r)
		}
		if r := take(audit.Config{}, nil); !r.Sound || r.Unseen != 1 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("SAFE-3 SAFE-6 an event that stands where another kind belongs is wrong", func(t *testing.T) {
		t.Parallel()
		r := take(audit.Config{}, func(i int, r *kernel.Record) {
			if i == 4 {
				r.Kind = events.StepFinished
			}
		})
		if r.Sound || r.First.Sequence != 5 || !strings.Contains(r.First.Why, "step.allowed") {
			t.Errorf("%+v", r.First)
		}
	})
	t.Run("PLUS-20a an anchor of a key that was replaced is accepted up to there, and reported after it", func(t *testing.T) {
		t.Parallel()
		old := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32))
		public := old.Public().(ed25519.PublicKey)
		head := func(seq uint64) audit.Config { // the last event stands at position 15
			return audit.Config{Anchors: []run.Anchor{run.AnchorOf(b.State(), seq, runtest.Start, old)}, Keys: []ed25519.PublicKey{public}}
		}
		for name, c := range map[string]struct {
			says, end uint64
			sound     bool
		}{
			"replaced at the next event":               {15, 16, true},
			"replaced at this event":                   {15, 15, true},
			"replaced before":                          {15, 14, false},
			"replaced before, and the position is not": {9, 14, false},
			"never replaced":                           {15, 0, true},
		} {
			cfg := head(c.says)
			if c.end > 0 {
				cfg.Ends = map[string]uint64{run.KeyID(public): c.end}
			}
			r := take(cfg, nil)
			if r.Sound != c.sound || !c.sound && (!strings.Contains(r.First.Why, "it was replaced") || r.First.Sequence != 6) {
				t.Errorf("%s: %+v, %+v", name, r, r.First)
			}
		}
	})
	t.Run("SAFE-3 an anchor that no one trusted signed is wrong, also where the log agrees with it", func(t *testing.T) {
		t.Parallel()
		a := run.AnchorOf(b.State(), 1, runtest.Start, key(2))
		if r := take(audit.Config{Anchors: []run.Anchor{a}, Keys: []ed25519.PublicKey{public(key(1))}}, nil); r.Sound || r.First.Sequence != 6 {
			t.Errorf("%+v", r)
		}
		a.Hash = run.HashOf(nil)
		if r := take(audit.Config{Anchors: []run.Anchor{a}, Keys: []ed25519.PublicKey{public(key(2))}}, nil); r.Sound || !strings.Contains(r.First.Why, "signature") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("SAFE-3 another run, an empty log and a line that is too long are wrong", func(t *testing.T) {
		t.Parallel()
		if r := take(audit.Config{Run: "q"}, nil); r.Sound || r.First.Sequence != 1 {
			t.Errorf("%+v", r)
		}
		for text, want := range map[string]string{"": "empty", strings.Repeat("x", 5*events.MaxEvent): "bytes", "{}\n": "unknown event type", "\n": "damaged"} {
			r, err := audit.File(t.Context(), audit.Config{}, strings.NewReader(text))
			if err != nil || r.Sound || r.First.Sequence != 1 || !strings.Contains(r.First.Why, want) {
				t.Errorf("%.10q: %v %+v", text, err, r.First)
			}
		}
	})
	t.Run("SAFE-3 an anchor is read strictly", func(t *testing.T) {
		t.Parallel()
		for _, bad := range []string{"", "{", `{"sequence":1}`, `{"runid":"r","sequence":1,"more":2}`} {
			if _, err := audit.ReadAnchor([]byte(bad)); err == nil {
				t.Errorf("%q was read", bad)
			}
		}
	})
	t.Run("SAFE-3 keys are 64 hex digits", func(t *testing.T) {
		t.Parallel()
		k, err := audit.ParsePrivate(strings.Repeat("01", 32) + "\n")
		if err != nil || !bytes.Equal(k, key(1)) {
			t.Errorf("%v", err)
		}
		if p, err := audit.ParsePublic(audit.FormatPublic(k)); err != nil || !bytes.Equal(p, public(k)) {
			t.Errorf("%v", err)
		}
		for _, bad := range []string{"", "zz", strings.Repeat("01", 31)} {
			if _, err := audit.ParsePrivate(bad); !errors.Is(err, audit.ErrKey) {
				t.Errorf("private %q: %v", bad, err)
			}
			if _, err := audit.ParsePublic(bad); !errors.Is(err, audit.ErrKey) {
				t.Errorf("public %q: %v", bad, err)
			}
		}
	})
}
