package localstore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

func opened(t *testing.T) *Station {
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "it.bolt"), Station: "exam"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// together makes changes that all wait before the first is made, and returns what came of them and how many
// transactions they took.
func together(t *testing.T, s *store, all ...func(*tx) error) (errs []error, transactions int) {
	t.Helper()
	before := transaction(t, s)
	errs = make([]error, len(all))
	var done sync.WaitGroup
	s.mu.Lock()
	for i, f := range all {
		done.Go(func() { errs[i] = s.write(context.Background(), f) })
		for n := 0; n <= i; {
			runtime.Gosched()
			s.line.Lock()
			n = len(s.waiting)
			s.line.Unlock()
		}
	}
	s.mu.Unlock()
	done.Wait()
	return errs, transaction(t, s) - before
}

// transaction is the number of the last one.
func transaction(t *testing.T, s *store) (n int) {
	t.Helper()
	if err := s.view(t.Context(), func(t *tx) error { n = t.bolt.ID(); return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestGroup(t *testing.T) {
	t.Parallel()
	put := func(key string) func(*tx) error {
		return func(t *tx) error { return t.put(timersBucket, []byte(key), []byte(key)) }
	}
	has := func(t *testing.T, s *store, key string) (there bool) {
		err := s.view(t.Context(), func(t *tx) (err error) { there, err = t.has(timersBucket, []byte(key)); return err })
		if err != nil {
			t.Fatal(err)
		}
		return there
	}
	t.Run("PERS-17 changes that wait at the same time share one sync", func(t *testing.T) {
		t.Parallel()
		s := opened(t).store
		var all []func(*tx) error
		for n := range 16 {
			all = append(all, put(fmt.Sprint(n)))
		}
		errs, transactions := together(t, s, all...)
		if err := errors.Join(errs...); err != nil || transactions != 1 {
			t.Errorf("%d transactions, %v", transactions, err)
		}
		for n := range 16 {
			if !has(t, s, fmt.Sprint(n)) {
				t.Errorf("change %d is missing", n)
			}
		}
	})
	t.Run("PERS-17 SAFE-4 a change that fails takes none of the others with it, and leaves nothing", func(t *testing.T) {
		t.Parallel()
		s := opened(t).store
		wrong := errors.New("wrong")
		half := func(t *tx) error { return errors.Join(put("half")(t), wrong) }
		quick := func(*tx) error { return wrong }
		errs, transactions := together(t, s, put("a"), half, put("b"), quick, half, put("c"))
		for i, err := range errs {
			if fails := i == 1 || i == 3 || i == 4; fails != errors.Is(err, wrong) || !fails && err != nil {
				t.Errorf("change %d: %v", i, err)
			}
		}
		if transactions != 1 || has(t, s, "half") || !has(t, s, "a") || !has(t, s, "b") || !has(t, s, "c") {
			t.Errorf("%d transactions; half %v, a %v, b %v, c %v", transactions, has(t, s, "half"), has(t, s, "a"), has(t, s, "b"), has(t, s, "c"))
		}
	})
	t.Run("PERS-17 a panic inside the file becomes an error, and the next change is made", func(t *testing.T) {
		t.Parallel()
		s := opened(t).store
		errs, _ := together(t, s, put("a"), func(*tx) error { panic("page 7: not a leaf") })
		for _, err := range errs {
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "page 7") {
				t.Errorf("got %v", err)
			}
		}
		if err := s.write(t.Context(), put("b")); err != nil || has(t, s, "a") || !has(t, s, "b") {
			t.Errorf("a %v, b %v, %v", has(t, s, "a"), has(t, s, "b"), err)
		}
	})
	t.Run("PERS-17 SAFE-4 of two appends at one place that share a sync, one is stored", func(t *testing.T) {
		t.Parallel()
		st := opened(t)
		acks := make([]kernel.Ack, 8)
		var done sync.WaitGroup
		for i := range acks {
			done.Go(func() {
				acks[i] = st.Journal().Append(t.Context(), kernel.Entry{ID: "r", Kind: events.TurnFinished, Bytes: fmt.Append(nil, i)})
			})
		}
		done.Wait()
		stored := 0
		for _, a := range acks {
			if a.Outcome == kernel.Stored {
				stored++
			} else if a.Outcome != kernel.Conflict || a.Seq != 1 {
				t.Errorf("%s at %d, %v", a.Outcome, a.Seq, a.Err)
			}
		}
		if evs, _, err := st.Journal().Read(t.Context(), "r", 0); err != nil || stored != 1 || len(evs) != 1 {
			t.Errorf("%d were stored, %d are there, %v", stored, len(evs), err)
		}
	})
	t.Run("PERS-17 readers wait for no writer", func(t *testing.T) {
		t.Parallel()
		s := opened(t).store
		err := s.write(t.Context(), func(w *tx) error {
			if err := put("a")(w); err != nil {
				return err
			}
			if has(t, s, "a") { // from another transaction, while this one is open
				t.Error("a reader sees what is not yet written")
			}
			return nil
		})
		if err != nil || !has(t, s, "a") {
			t.Errorf("a %v, %v", has(t, s, "a"), err)
		}
	})
	t.Run("PERS-17 room that was freed is used again", func(t *testing.T) {
		t.Parallel()
		st := opened(t)
		size := func() (n int64) {
			err := st.store.view(t.Context(), func(t *tx) error { n = t.bolt.Size(); return nil })
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		var first int64
		for n := range 40 {
			ref, err := st.Blobs().Put(t.Context(), "output", []byte(strings.Repeat(fmt.Sprint(n%10), 256<<10)))
			if err != nil {
				t.Fatal(err)
			}
			err = st.store.write(t.Context(), func(t *tx) error { return t.remove(objectsBucket, []byte(ref.SHA256)) })
			if err != nil {
				t.Fatal(err)
			}
			if n == 3 {
				first = size()
			}
		}
		if last := size(); last > first {
			t.Errorf("the file grew from %d to %d bytes", first, last)
		}
	})
	t.Run("PERS-17 a closed store says so", func(t *testing.T) {
		t.Parallel()
		st := opened(t)
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		_, _, err := st.Journal().Last(t.Context(), "r")
		ack := st.Journal().Append(t.Context(), kernel.Entry{ID: "r", Kind: events.TurnFinished, Bytes: []byte("late")})
		if !errors.Is(err, errShut) || !errors.Is(ack.Err, errShut) || ack.Outcome != kernel.Unknown {
			t.Errorf("read: %v; append: %s, %v", err, ack.Outcome, ack.Err)
		}
	})
}
