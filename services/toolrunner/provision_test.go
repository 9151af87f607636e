package toolrunner

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
)

func TestProvision(t *testing.T) {
	t.Parallel()
	t.Run("SESS-18 WS-16 a session has its files before its first call, a run before its first use of the workspace", func(t *testing.T) {
		t.Parallel()
		b, a := inSession(t)
		a, err := b.role.provision.provision(t.Context(), a)
		if err != nil || a.Broken != nil {
			t.Fatal(err, a.Broken)
		}
		there := func(name string) bool {
			_, err := os.Lstat(filepath.Join(b.root, "session/s", name))
			return err == nil
		}
		if !there(".session.lock") || there(".harness/tasks.json") {
			t.Errorf("lock file %v, steps %v", there(".session.lock"), there(".harness/tasks.json"))
		}
		if err := b.role.provision.first(t.Context(), a, nil)(); err != nil || !there(".harness/tasks.json") {
			t.Errorf("at the first use: %v", err)
		}
	})
	t.Run("WS-3 SBX-14 a link in the place of the workspace breaks it, and nothing is written through it", func(t *testing.T) {
		t.Parallel()
		b, a := inSession(t)
		other := t.TempDir()
		if err := os.MkdirAll(filepath.Join(b.root, "session"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(other, filepath.Join(b.root, "session/s")); err != nil {
			t.Fatal(err)
		}
		if a, err := b.role.provision.provision(t.Context(), a); err != nil || a.Broken == nil {
			t.Errorf("broken %v, %v", a.Broken, err)
		}
		if left, err := os.ReadDir(other); err != nil || len(left) != 0 {
			t.Errorf("%v was written, %v", left, err)
		}
	})
}

// inSession is a call of a run in the session s.
func inSession(t *testing.T) (*bed, acquired) {
	t.Helper()
	b := newBed(t, call.Once)
	text, err := json.Marshal(events.Session{ID: "s", Fence: 1, Born: 1})
	if err == nil {
		err = b.Station.KV(topology.SessionBucket).Put(t.Context(), "session.s", text)
	}
	if err != nil {
		t.Fatal(err)
	}
	a := acquired{admitted: b.admitted()}
	created := *a.state.Created
	created.Session, created.SessionFence, created.Workspace = "s", 1, "session/s"
	a.state.Created, a.Dir = &created, workdir.Dir{Workspace: "session/s", Path: "session/s"}
	return b, a
}
