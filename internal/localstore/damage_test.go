package localstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/localstore"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// populate fills a file with some of everything, in pages of each kind, of which some became free again.
func populate(t *testing.T, path string) {
	t.Helper()
	w := &fallen{t: t, home: newHome(t), path: path}
	w.restart()
	begin(w)
	w.home.set(true, -1)
	middle(w) // a branch, open
	s := w.local
	for n := range 60 {
		id, head := fmt.Sprintf("run-%d", n%7), uint64(0)
		if last, ok, err := s.Journal().Last(t.Context(), id); err != nil {
			t.Fatal(err)
		} else if ok {
			head = last.Seq
		}
		b := []byte(strings.Repeat(fmt.Sprintf("event %d ", n), 1+n*n/8))
		if ack := s.Journal().Append(t.Context(), kernel.Entry{ID: id, Kind: events.TurnFinished, Head: head, Bytes: b}); ack.Err != nil {
			t.Fatal(ack.Err)
		}
		if _, err := s.Blobs().Put(t.Context(), "output", []byte(strings.Repeat(fmt.Sprint(n), n*n))); err != nil {
			t.Fatal(err)
		}
		if err := s.KV("harness-state").Put(t.Context(), fmt.Sprintf("index.%d", n%20), []byte(fmt.Sprint("value ", n))); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 10 {
		if err := s.KV("harness-state").Delete(t.Context(), fmt.Sprintf("index.%d", n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Publish(t.Context(), "station.exam.task", []byte(`{"goal":"look"}`), map[string]string{"a": "b"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Timers().Set(t.Context(), "r", "run.timeout", time.Now().Add(100*time.Hour), 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Refusals().Refuse(t.Context(), events.Planner, kernel.DeadLetter{Code: "bad_move", Run: "r", Reason: "no"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// observe returns all that a file shows through the ports.
func observe(path string) (saw string, err error) {
	ctx := context.Background()
	s, err := localstore.Open(ctx, localstore.Config{Path: path, Station: "exam"})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var b strings.Builder
	var errs []error
	runs, err := s.Logged(ctx)
	errs = append(errs, err)
	for _, id := range runs {
		after := uint64(0)
		for more := true; more; {
			var page []kernel.Record
			page, more, err = s.Journal().Read(ctx, id, after)
			errs = append(errs, err)
			for _, r := range page {
				fmt.Fprintf(&b, "%s %d %s %s\n", id, r.Seq, r.Kind, r.Bytes)
				after = r.Seq
			}
		}
	}
	all, err := s.Branches(ctx, "")
	errs = append(errs, err)
	for _, one := range all {
		evidence, err := s.Evidence(ctx, one.ID)
		errs = append(errs, err)
		fmt.Fprintf(&b, "%+v\n", one)
		for _, r := range evidence {
			fmt.Fprintf(&b, "%d %s %s\n", r.Seq, r.Kind, r.Bytes)
		}
	}
	for n := range 60 {
		data := []byte(strings.Repeat(fmt.Sprint(n), n*n))
		_, err := s.Blobs().Get(ctx, events.Ref{SHA256: events.HashOf(data), Size: int64(len(data))})
		errs = append(errs, err)
	}
	keys, err := s.KV("harness-state").Keys(ctx, "")
	errs = append(errs, err)
	for _, k := range keys {
		value, revision, err := s.KV("harness-state").Load(ctx, k)
		errs = append(errs, err)
		fmt.Fprintf(&b, "%s %s %d\n", k, value, revision)
	}
	dead, err := s.Dead(ctx, 0)
	errs = append(errs, err)
	fmt.Fprintf(&b, "%+v\n%d timers\n", dead, s.Alarms())
	for _, role := range events.Services() {
		fmt.Fprintf(&b, "%s %d\n", role, s.Pending(role))
	}
	last, _, err := s.Journal().Last(ctx, "next")
	errs = append(errs, err)
	ack := s.Journal().Append(ctx, kernel.Entry{ID: "next", Kind: events.TurnFinished, Head: last.Seq, Bytes: []byte("goes on")})
	fmt.Fprintf(&b, "next at %d\n", ack.Seq)
	return b.String(), errors.Join(append(errs, ack.Err)...)
}

// file is one to try on.
type file struct {
	path  string
	bytes []byte
	saw   string
}

func populated(t *testing.T) file {
	f := file{path: filepath.Join(t.TempDir(), "whole.bolt")}
	populate(t, f.path)
	var err error
	if f.bytes, err = os.ReadFile(f.path); err != nil {
		t.Fatal(err)
	}
	if f.saw, err = observe(f.path); err != nil {
		t.Fatal(err)
	}
	return f
}

// judge opens other bytes, and reports whether the damage was noticed. It fails where it was not and something differs.
func (f file) judge(t *testing.T, what string, b []byte) (noticed bool) {
	t.Helper()
	path := filepath.Join(filepath.Dir(f.path), "damaged.bolt")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	saw, err := observe(path)
	if err == nil && saw != f.saw {
		t.Errorf("%s: no one noticed that something differs:\n got %.600s\nwant %.600s", what, saw, f.saw)
	}
	if err != nil && !errors.Is(err, localstore.ErrDamaged) {
		t.Fatalf("%s: %v, want %v", what, err, localstore.ErrDamaged)
	}
	return err != nil
}

func TestFlippedBits(t *testing.T) {
	t.Parallel()
	t.Run("PERS-17 SAFE-2 a flipped bit is reported, or changes nothing that can be observed", func(t *testing.T) {
		t.Parallel()
		f, noticed := populated(t), 0
		chance := rand.New(rand.NewPCG(1, 1))
		page := os.Getpagesize()
		for n := range 400 {
			at := chance.IntN(len(f.bytes))
			if n%4 == 0 { // in the head of a page and the list of what is on it
				at = at/page*page + chance.IntN(128)
			}
			b, bit := append([]byte{}, f.bytes...), chance.IntN(8)
			b[at] ^= 1 << bit
			if f.judge(t, fmt.Sprintf("bit %d of byte %d", bit, at), b) {
				noticed++
			}
		}
		if noticed < 100 {
			t.Errorf("%d of 400 were noticed, the test proves little", noticed)
		}
		t.Logf("%d of 400 were reported, the others change nothing", noticed)
	})
	t.Run("PERS-17 SAFE-2 each bit of a meta page counts", func(t *testing.T) {
		t.Parallel()
		f := populated(t)
		for _, at := range []int{0, os.Getpagesize()} {
			for n := range 64 * 8 {
				b := append([]byte{}, f.bytes...)
				b[at+16+n/8] ^= 1 << (n % 8)
				if n%7 == 0 && !f.judge(t, fmt.Sprintf("bit %d of the meta at %d", n, at), b) {
					t.Errorf("bit %d of the meta at %d was not noticed", n, at)
				}
			}
		}
	})
}

func TestTornFile(t *testing.T) {
	t.Parallel()
	t.Run("PERS-17 SAFE-2 a file that was cut is reported", func(t *testing.T) {
		t.Parallel()
		f, page, noticed := populated(t), os.Getpagesize(), 0
		for at := page; at < len(f.bytes); at += page {
			for _, size := range []int{at, at - page/2, at - 1} {
				if f.judge(t, fmt.Sprintf("cut at %d of %d", size, len(f.bytes)), f.bytes[:size]) {
					noticed++
				}
			}
		}
		if noticed < len(f.bytes)/page {
			t.Errorf("%d of %d cuts were noticed", noticed, len(f.bytes)/page*3)
		}
	})
	t.Run("PERS-17 a file that is no store is refused, and left as it is", func(t *testing.T) {
		t.Parallel()
		for name, b := range map[string]string{"a letter": "Dear all,\n", "a long letter": strings.Repeat("Dear all,\n", 5000),
			"nothing but zeros": strings.Repeat("\x00", 32<<10), "SQLite": "SQLite format 3\x00" + strings.Repeat("\x00", 32<<10)} {
			path := filepath.Join(t.TempDir(), "it.bolt")
			if err := os.WriteFile(path, []byte(b), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := localstore.Open(t.Context(), localstore.Config{Path: path, Station: "exam"})
			if !errors.Is(err, localstore.ErrDamaged) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "move it away") {
				t.Errorf("%s: %v", name, err)
			}
			if is, err := os.ReadFile(path); err != nil || string(is) != b {
				t.Errorf("%s: it was changed, %v", name, err)
			}
		}
	})
	t.Run("PERS-17 a file of another program is refused", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "it.bolt")
		db, err := bolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(func(tx *bolt.Tx) error {
			b, err := tx.CreateBucket([]byte("members"))
			if err != nil {
				return err
			}
			return b.Put([]byte("a"), []byte("b"))
		})
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := localstore.Open(t.Context(), localstore.Config{Path: path, Station: "exam"}); err == nil || !strings.Contains(err.Error(), `"members" is not one of a local store`) {
			t.Errorf("opened: %v", err)
		}
	})
	t.Run("PERS-17 an empty file is a new store, and another station is refused", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "it.bolt")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := localstore.Open(t.Context(), localstore.Config{Path: path, Station: "exam"})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		_, err = localstore.Open(t.Context(), localstore.Config{Path: path, Station: "other"})
		if err == nil || !strings.Contains(err.Error(), `the store of station "exam", not of "other"`) {
			t.Errorf("opened: %v", err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	})
}

func TestPowerCut(t *testing.T) {
	t.Parallel()
	t.Run("PERS-15 PERS-17 a power cut between any two writes of a transaction leaves the one before it, whole", func(t *testing.T) {
		t.Parallel()
		f, page := populated(t), os.Getpagesize()
		path := filepath.Join(filepath.Dir(f.path), "next.bolt")
		if err := os.WriteFile(path, f.bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := localstore.Open(t.Context(), localstore.Config{Path: path, Station: "exam"})
		if err != nil {
			t.Fatal(err)
		}
		ack := s.Journal().Append(t.Context(), kernel.Entry{ID: "another", Kind: events.TurnFinished, Bytes: make([]byte, 20_000)})
		if err := errors.Join(ack.Err, s.Close()); err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before := append(append([]byte{}, f.bytes...), make([]byte, len(after)-len(f.bytes))...) // it grows first
		var changed []int
		metas := 0
		for at := 0; at < len(after); at += page {
			if string(before[at:at+page]) == string(after[at:at+page]) {
				continue
			}
			if at < 2*page {
				metas++ // it is written behind a sync of all others
			} else {
				changed = append(changed, at)
			}
		}
		if metas != 1 || len(changed) < 5 {
			t.Fatalf("%d meta pages and %d others were written", metas, len(changed))
		}
		chance := rand.New(rand.NewPCG(2, 2))
		for n := range 120 {
			b := append([]byte{}, before...)
			for i, at := range changed {
				switch {
				case n < len(changed) && i < n, n >= len(changed) && chance.IntN(2) == 0:
					copy(b[at:], after[at:at+page])
				case n%3 == 0: // half of it
					copy(b[at:], after[at:at+page/2])
				}
			}
			if f.judge(t, fmt.Sprintf("state %d of the writes", n), b) {
				t.Errorf("state %d of the writes is taken for damage", n)
			}
		}
		if saw, err := observe(path); err != nil || !strings.Contains(saw, "another ") {
			t.Errorf("the transaction is not there, %v", err)
		}
	})
}

func TestEarlierStore(t *testing.T) {
	t.Parallel()
	t.Run("PERS-17 CLI-9 a store that SQLite wrote is not passed over in silence", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		cfg := localstore.Config{Path: filepath.Join(dir, "station.bolt"), Station: "exam"}
		old := filepath.Join(dir, "station.db")
		if err := os.WriteFile(old, []byte("SQLite format 3\x00"+strings.Repeat("x", 100)), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := localstore.Open(t.Context(), cfg)
		if !errors.Is(err, localstore.ErrEarlier) || !strings.Contains(err.Error(), "make local-store STORE="+dir) {
			t.Errorf("opened: %v", err)
		}
		if _, err := os.Stat(cfg.Path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a new one was begun: %v", err)
		}
		for _, c := range []localstore.Config{{Path: cfg.Path, Station: "exam", Spare: true}, cfg} { // and once there is a new one
			s, err := localstore.Open(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestWarningNamesTheStore looks at what stands in the log about the store.
func TestWarningNamesTheStore(t *testing.T) {
	t.Parallel()
	t.Run("PERS-4 the warning names the store that keeps the events", func(t *testing.T) {
		t.Parallel()
		w := newFallen(t)
		begin(w)
		w.home.set(true, -1)
		w.say("r", runtest.Paused("lunch"))
		_, evs := w.branches(localstore.BranchOpen)
		warning, err := events.Decode(evs[1])
		if err != nil || !strings.Contains(string(warning.Data), `"store":"local"`) {
			t.Errorf("warning %s, %v", warning.Data, err)
		}
	})
}
