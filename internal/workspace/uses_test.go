package workspace_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/workspace"
)

func TestUses(t *testing.T) {
	t.Parallel()
	yes := func(workspace.Use) (bool, error) { return true, nil }
	t.Run("WS-5 WS-3 a workspace does not go while a call is under way in it, whichever process asks, and its notes go with it", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		u, other := workspace.NewUses(root), workspace.NewUses(root)
		leave, err := u.Enter(t.Context(), "run/r1", "r1")
		if err != nil {
			t.Fatal(err)
		}
		if gone, err := other.Remove("run/r1", yes, func() error { return errors.New("removed under a call") }); gone || err != nil {
			t.Fatal(gone, err)
		}
		leave()
		if gone, err := other.Remove("run/r1", func(u workspace.Use) (bool, error) { return len(u.Runs) == 0, nil }, func() error { return nil }); gone || err != nil {
			t.Fatal("the notes of its runs were not read", err)
		}
		if gone, err := other.Remove("run/r1", yes, func() error { return errors.New("busy") }); gone || err == nil {
			t.Fatal("what could not be removed is called gone")
		}
		if all, err := u.All(); err != nil || len(all) != 1 || len(all[0].Runs) != 1 || all[0].Path != "run/r1" {
			t.Fatalf("%+v %v", all, err)
		}
		if gone, err := u.Remove("run/r1", yes, func() error { return nil }); !gone || err != nil {
			t.Fatal(gone, err)
		}
		if all, err := u.All(); err != nil || len(all) != 0 {
			t.Fatalf("%+v %v", all, err)
		}
		if leave, err = u.Enter(t.Context(), "run/r1", "r1"); err != nil {
			t.Fatal(err)
		}
		leave()
		if all, err := u.All(); err != nil || len(all) != 1 || len(all[0].Runs) != 1 {
			t.Fatalf("a run that comes again is not noted again: %+v %v", all, err)
		}
	})
	t.Run("WS-5 SAFE-13 a call that comes while a workspace is removed waits, and no longer than its context lives", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		u, other := workspace.NewUses(root), workspace.NewUses(root)
		leave, err := u.Enter(t.Context(), "run/r1", "r1")
		if err != nil {
			t.Fatal(err)
		}
		leave()
		entered := make(chan error, 1)
		gone, err := other.Remove("run/r1", yes, func() error {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errors.New("the call is over"))
			if _, err := u.Enter(ctx, "run/r1", "r2"); err == nil || !strings.Contains(err.Error(), "the call is over") {
				t.Errorf("a call that is over: %v", err)
			}
			go func() {
				leave, err := u.Enter(t.Context(), "run/r1", "r3")
				if err == nil {
					leave()
				}
				entered <- err
			}()
			return nil
		})
		if !gone || err != nil {
			t.Fatal(gone, err)
		}
		if err := <-entered; err != nil {
			t.Error(err)
		}
	})
	t.Run("WS-5 of two calls of a process in a workspace the one that leaves does not let it go", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		a, b := workspace.NewUses(root), workspace.NewUses(root)
		for range 3 { // each time with a lock of its own
			one, err := a.Enter(t.Context(), "run/r1", "r1")
			if err != nil {
				t.Fatal(err)
			}
			two, err := a.Enter(t.Context(), "run/r1", "r1")
			if err != nil {
				t.Fatal(err)
			}
			one()
			if gone, err := b.Remove("run/r1", yes, func() error { return nil }); gone || err != nil {
				t.Errorf("it went under the other call: %v %v", gone, err)
			}
			two()
			if gone, err := b.Remove("run/r1", yes, func() error { return nil }); !gone || err != nil {
				t.Errorf("it stays without calls: %v %v", gone, err)
			}
		}
	})
	t.Run("WS-5 those of sessions and the shared one have no notes, so that they never go", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		u := workspace.NewUses(root)
		for _, path := range []string{"session/s", "shared"} {
			leave, err := u.Enter(t.Context(), path, "r1")
			if err != nil {
				t.Fatal(err)
			}
			leave()
		}
		if _, err := os.Lstat(filepath.Join(root, ".uses")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("notes were written: %v", err)
		}
	})
	t.Run("WS-5 WS-3 runs that enter while others remove always find a workspace that stays", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		dir := filepath.Join(root, "run", "r1")
		var all sync.WaitGroup
		for range 4 {
			u := workspace.NewUses(root)
			all.Go(func() {
				for range 50 {
					leave, err := u.Enter(t.Context(), "run/r1", "r1")
					if err != nil {
						t.Error(err)
						return
					}
					file := filepath.Join(dir, "x")
					err = errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(file, nil, 0o600))
					if _, there := os.Stat(file); err != nil || there != nil {
						t.Errorf("the workspace went under a call: %v %v", err, there)
					}
					leave()
				}
			})
			all.Go(func() {
				for range 50 {
					if _, err := u.Remove("run/r1", yes, func() error { return os.RemoveAll(dir) }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	})
}
