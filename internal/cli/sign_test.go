package cli_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/inspan/inspan/pkg/client"
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
}
