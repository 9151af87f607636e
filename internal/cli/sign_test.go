package cli_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/approval"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestSign(t *testing.T) {
	d := newDesk(t)
	key, approvers := filepath.Join(d.dir, "anna.key"), filepath.Join(d.dir, "approvers")
	if err := os.Mkdir(approvers, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Run("SAFE-9 keygen makes a key once, and only for its owner", func(t *testing.T) {
		if s := inspan(t, "keygen", key); s.code != 0 {
			t.Fatal(s.err)
		}
		if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		if s := inspan(t, "keygen", key); s.code == 0 {
			t.Error("it was written over")
		}
	})
	stranger := filepath.Join(d.dir, "stranger.key")
	if err := errors.Join(os.Rename(key+".pub", filepath.Join(approvers, "anna.pub"))); err != nil {
		t.Fatal(err)
	}
	if s := inspan(t, "keygen", stranger); s.code != 0 {
		t.Fatal(s.err)
	}
	t.Setenv("INSPAN_APPROVER_KEYS", approvers)
	t.Setenv("INSPAN_ONLY_SIGNED", "true")
	d.up()
	t.Run("SAFE-9 approve --sign answers as the key's owner; without a key, or with a stranger's, it is refused", func(t *testing.T) {
		d.want(0, nil, "run", "reader", "read the note", "--id", "signed", "--autonomy", "1", "--detach", "--session", "desk")
		var gate string
		for gate == "" {
			for _, g := range decode[[]client.Waiting](t, d.want(0, nil, "gates", "--json").out) {
				gate = g.Run.HarnessID + "/" + g.Gate.ID
			}
		}
		d.want(4, []string{"unsigned_answer"}, "approve", gate)
		d.want(4, []string{"unknown_signer"}, "approve", gate, "--sign", stranger)
		d.want(2, []string{"--sign"}, "approve", gate, "--sign", filepath.Join(approvers, "anna.pub"))
		d.want(0, []string{"approved by anna"}, "approve", gate, "--sign", key, "--reason", "read it")
	})
	t.Run("SAFE-3 SAFE-9 audit verifies the answers with the folder of keys, online and from a file", func(t *testing.T) {
		d.want(0, nil, "run", "reader", "read the note", "--id", "after", "--autonomy", "0")
		d.want(0, []string{"1 to gates, 1 with a verified signature"}, "audit", "signed")
		d.want(0, []string{"none to a gate"}, "audit", "after")
		file := filepath.Join(d.dir, "signed.jsonl")
		if err := os.WriteFile(file, []byte(d.want(0, nil, "export", "signed").out), 0o644); err != nil {
			t.Fatal(err)
		}
		others := filepath.Join(d.dir, "others")
		if err := errors.Join(os.Mkdir(others, 0o755), os.Rename(stranger+".pub", filepath.Join(others, "mallory.pub"))); err != nil {
			t.Fatal(err)
		}
		for _, argv := range [][]string{{"audit", "--file", file}, {"audit", "signed"}} {
			d.want(0, []string{"1 with a verified signature"}, argv...)
			d.want(1, []string{"(gate.approved)", "unknown", "of anna"}, append(argv, "--approver-keys", others)...)
			d.want(2, []string{"--approver-keys"}, append(argv, "--approver-keys", file)...)
		}
		t.Setenv("INSPAN_APPROVER_KEYS", "")
		d.want(2, []string{"--only-signed needs"}, "audit", "--file", file)
		t.Setenv("INSPAN_ONLY_SIGNED", "")
		d.want(0, []string{"1 with one that was not checked"}, "audit", "--file", file)
	})
}

// forge puts a log on a station that stands still, each event as its author: only whoever has all passwords can.
func forge(t *testing.T, st *station.Station, evs [][]byte) {
	t.Helper()
	for i, b := range evs {
		f, err := events.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := st.As(t.Context(), f.Author())
		if err != nil {
			t.Fatal(err)
		}
		as, err := conn.Station("default")
		if err != nil {
			t.Fatal(err)
		}
		last, _, err := as.Journal().Last(t.Context(), f.Run)
		if err != nil {
			t.Fatal(err)
		}
		kind, _ := f.Kind()
		if ack := as.Journal().Append(t.Context(), kernel.Entry{ID: f.Run, Kind: kind, Bytes: b, Head: last.Seq}); ack.Outcome != kernel.Stored {
			t.Fatalf("event %d: %s, %v", i+1, ack.Outcome, ack.Err)
		}
	}
}

func TestForged(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	approvers, key := filepath.Join(d.dir, "approvers"), filepath.Join(d.dir, "anna")
	if err := os.Mkdir(approvers, 0o755); err != nil {
		t.Fatal(err)
	}
	if s := inspan(t, "keygen", key); s.code != 0 {
		t.Fatal(s.err)
	}
	if err := os.Rename(key+".pub", filepath.Join(approvers, "anna.pub")); err != nil {
		t.Fatal(err)
	}
	anna, err := approval.LoadKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if d.station, err = station.Up(t.Context(), station.Config{Listen: "127.0.0.1:0", StoreDir: filepath.Join(d.dir, "store"), Still: true, LazySync: true, Log: zerolog.Nop()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.station.Close(context.Background()) })
	for id, gate := range map[string]string{"good": "g-1", "forged": "g-2", "bare": ""} {
		b := runtest.New("default", id)
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.GateAt("g-1", "a", ""))
		s := b.State()
		yes := runtest.Yes(s.Gate("g-1"))
		if gate != "" { // a signature that was given for that gate
			yes.Assurance, yes.Key = events.AssuranceSignature, anna.ID()
			if yes.Signature, err = anna.Sign(approval.Statement{Station: "default", Run: id, Gate: gate, Decision: approval.Approve, ProposalHash: yes.ProposalHash}); err != nil {
				t.Fatal(err)
			}
		}
		b.Append(yes)
		forge(t, d.station, b.Events())
	}
	t.Run("SAFE-3 SAFE-9 audit names a forged approval that is well chained on the station, with its position", func(t *testing.T) {
		d.want(0, []string{"1 with a verified signature"}, "audit", "good", "--approver-keys", approvers, "--only-signed")
		d.want(1, []string{"event 6 (gate.approved) at position", "g-1", "did not sign"}, "audit", "forged", "--approver-keys", approvers)
		d.want(0, []string{"0 with a verified signature"}, "audit", "bare", "--approver-keys", approvers)
		d.want(1, []string{"event 6 (gate.approved) at position", "not signed"}, "audit", "bare", "--approver-keys", approvers, "--only-signed")
	})
}
