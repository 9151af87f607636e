package service

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
)

func TestChange(t *testing.T) {
	p := newPlace(t)
	path := filepath.Join(p.home, "some", "config.yaml")
	t.Run("ID-2 a file that somebody changed meanwhile is not overwritten", func(t *testing.T) {
		if changed, _, err := Change(FromSystem, path, agentfile.Edit{Key: "station", Value: "a"}); err != nil || !changed {
			t.Fatal(changed, err)
		}
		if done, err := exchange(path, []byte("station: old\n"), []byte("station: mine\n"), 0o600); err != nil || done {
			t.Errorf("%t %v", done, err)
		}
		if done, err := exchange(path, []byte("station: a\n"), []byte("station: b\n"), 0o600); err != nil || !done {
			t.Errorf("%t %v", done, err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != "station: b\n" {
			t.Errorf("%q %v", b, err)
		}
		if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".config-*")); err != nil || len(left) > 0 {
			t.Errorf("files were left: %v %v", left, err)
		}
	})
	t.Run("ID-2 a value that no program could start with is refused, unless another one was wrong before", func(t *testing.T) {
		if _, _, err := Change(FromSystem, path, agentfile.Edit{Key: "nats.replicas", Value: "2"}); err == nil {
			t.Error("two copies were taken")
		}
		if err := os.WriteFile(path, []byte("nats:\n  replicas: 2\nsnapshot_form: clay\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if changed, _, err := Change(FromSystem, path, agentfile.Edit{Key: "nats.replicas", Value: "3"}); err != nil || !changed {
			t.Error(changed, err)
		}
	})
}
