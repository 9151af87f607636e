package station_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/keychain"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/events"
)

var errCut = errors.New("cut")

// keyed is a store of a station that was stopped.
func keyed(t *testing.T) (dir string, start func() *station.Station) {
	t.Helper()
	dir = t.TempDir()
	cfg, err := upConfig(dir, &marker{marks: map[string]int{}})
	if err != nil {
		t.Fatal(err)
	}
	start = func() *station.Station {
		t.Helper()
		st, err := station.Up(within(t), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close(context.Background()) })
		return st
	}
	if err := start().Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "store"), start
}

// chain is what the log of a station has once it has so many links and its file has none left, after it was audited; the
// station is closed.
func chain(t *testing.T, store string, st *station.Station, want int) []keychain.Link {
	t.Helper()
	if d := st.Damage(); d.Damaged() {
		t.Errorf("the station says that it is damaged: %v", d)
	}
	c := dial(t, st.URL())
	links, err := operator.KeyChain(within(t), c)
	pending := func() bool {
		b, err := os.ReadFile(filepath.Join(store, station.KeyFile))
		if err != nil {
			t.Fatal(err)
		}
		f, err := keychain.ParseFile(string(b))
		return err != nil || len(f.Links) > 0
	}
	for ctx := within(t); err == nil && (len(links) < want || pending()) && ctx.Err() == nil; links, err = operator.KeyChain(ctx, c) {
		<-time.After(50 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	if all, err := operator.AuditAll(within(t), c, operator.Trust{}); err != nil || !all.Sound {
		t.Errorf("%+v, %v", all, err)
	}
	if err := st.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	return links
}

// TestRotateKey replaces the key of a store that no station has open.
func TestRotateKey(t *testing.T) {
	t.Parallel()
	rotation := func(store, reason string) station.KeyRotation {
		return station.KeyRotation{Station: "default", Store: store, Reason: reason, Now: time.Now}
	}
	t.Run("PLUS-20a a rotation that is killed at any point has happened whole or not at all, and the store is sound", func(t *testing.T) {
		t.Parallel()
		store, start := keyed(t)
		links := 0
		for _, step := range []string{"digest", "file", ""} {
			k := rotation(store, events.KeyWasRotated).CutAt(step, errCut)
			before, err := os.ReadFile(filepath.Join(store, station.KeyFile))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := station.RotateKey(within(t), k); step != "" && !errors.Is(err, errCut) || step == "" && err != nil {
				t.Fatalf("%s: %v", step, err)
			}
			after, err := os.ReadFile(filepath.Join(store, station.KeyFile))
			if err != nil || string(before) == string(after) != (step == "digest") {
				t.Errorf("%s: the file was %q and is %q, %v", step, before, after, err)
			}
			if step != "digest" {
				links++
			}
			if got := chain(t, store, start(), links); len(got) != links {
				t.Errorf("%s: %d links, want %d", step, len(got), links)
			}
		}
	})
	t.Run("PLUS-20a what cannot be rotated says why and changes nothing", func(t *testing.T) {
		t.Parallel()
		store, start := keyed(t)
		path := filepath.Join(store, station.KeyFile)
		refused := func(k station.KeyRotation, want error, text string) {
			t.Helper()
			before, _ := os.ReadFile(path)
			_, err := station.RotateKey(within(t), k)
			if !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
				t.Errorf("got %v, want %v with %q", err, want, text)
			}
			if after, _ := os.ReadFile(path); string(before) != string(after) {
				t.Errorf("%v changed the file", err)
			}
		}
		other := rotation(store, events.KeyWasRotated)
		other.Station = "other"
		refused(other, station.ErrOtherName, "station default")
		refused(rotation(filepath.Join(store, "none"), events.KeyWasRotated), station.ErrNoKey, "none")
		held, err := disk.TakeLock(keychain.LockOf(path))
		if err != nil {
			t.Fatal(err)
		}
		refused(rotation(store, events.KeyWasRotated), disk.ErrLocked, "another rotation")
		if err := held.Close(); err != nil {
			t.Fatal(err)
		}
		dry := rotation(store, events.KeyWasRotated)
		dry.DryRun = true
		before, _ := os.ReadFile(path)
		if out, err := station.RotateKey(within(t), dry); err != nil || out.New != "" || out.Old == "" {
			t.Errorf("%+v, %v", out, err)
		}
		if after, _ := os.ReadFile(path); string(before) != string(after) {
			t.Error("a dry run changed the file")
		}
		if _, err := station.RotateKey(within(t), rotation(store, events.KeyWasRotated)); err != nil {
			t.Fatal(err)
		}
		refused(rotation(store, events.KeyWasRotated), station.ErrPending, "start the station")
		refused(rotation(store, events.KeyHasLeaked), station.ErrPending, "start the station")
		if got := chain(t, store, start(), 1); len(got) != 1 {
			t.Errorf("%d links", len(got))
		}
		refused(rotation(store, events.KeyIsLost), station.ErrNotLost, "it is not lost")
	})
	t.Run("PLUS-20a a key that is damaged or gone is replaced only by somebody who says that it is lost", func(t *testing.T) {
		t.Parallel()
		store, start := keyed(t)
		path := filepath.Join(store, station.KeyFile)
		if err := os.WriteFile(path, []byte("rubbish\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := station.RotateKey(within(t), rotation(store, events.KeyWasRotated)); !errors.Is(err, keychain.ErrFile) {
			t.Errorf("got %v", err)
		}
		if _, err := station.RotateKey(within(t), rotation(store, events.KeyIsLost)); err != nil {
			t.Fatal(err)
		}
		if got := chain(t, store, start(), 1); len(got) != 1 || got[0].Reason != events.KeyIsLost {
			t.Errorf("%+v", got)
		}
	})
}
