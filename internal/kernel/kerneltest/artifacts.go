package kerneltest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// Artifacts is the exam of a store of artifacts.
func Artifacts(t *testing.T, open func(t *testing.T) kernel.Artifacts) {
	t.Helper()
	ctx, large := aMinute, bytes.Repeat([]byte("0123456789abcdef"), 20_000) // several parts
	t.Run("removal", func(t *testing.T) {
		t.Parallel()
		artifactRemoval(t, open, large)
	})
	t.Run("ART-2 SAFE-15 what is put comes back, its digest checked, and belongs to its run alone", func(t *testing.T) {
		t.Parallel()
		a := open(t)
		for _, data := range [][]byte{{}, []byte("x"), large} {
			ref, err := a.Put(ctx(t), "r1", data, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := a.Get(ctx(t), "r1", ref); err != nil || !bytes.Equal(got, data) {
				t.Errorf("got %d bytes, %v; want %d", len(got), err, len(data))
			}
			if _, err := a.Get(ctx(t), "r2", ref); !errors.Is(err, kernel.ErrNotFound) {
				t.Errorf("another run: %v, want ErrNotFound", err)
			}
			if got, err := a.Get(ctx(t), "r1", events.Ref{SHA256: ref.SHA256, Size: ref.Size + 1}); err == nil {
				t.Errorf("with another size: %d bytes", len(got))
			}
		}
		for _, name := range []string{"", "a.b", "../r1", strings.Repeat("x", 65)} {
			if _, err := a.Put(ctx(t), name, large, 0); err == nil {
				t.Errorf("a run %q was taken", name)
			}
		}
	})
	t.Run("ART-2 putting twice stores one, listed with size and time", func(t *testing.T) {
		t.Parallel()
		a := open(t)
		ref, err := a.Put(ctx(t), "r1", large, 2*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		again, err := a.Put(ctx(t), "r1", large, 3*time.Hour)
		if err != nil || again != ref {
			t.Errorf("%+v, %v", again, err)
		}
		all, err := a.Stored(ctx(t))
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		if s := all[0]; s.Run != "r1" || s.SHA256 != ref.SHA256 || s.Size != ref.Size || s.TTL != 2*time.Hour ||
			s.Put.IsZero() {
			t.Errorf("%+v", s)
		}
	})
}

func aMinute(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func artifactRemoval(t *testing.T, open func(t *testing.T) kernel.Artifacts, large []byte) {
	ctx := aMinute
	t.Run("ART-8 what is removed is gone, for its run alone, and may be put again", func(t *testing.T) {
		t.Parallel()
		a := open(t)
		var ref events.Ref
		for _, run := range []string{"r1", "r2"} {
			var err error
			if ref, err = a.Put(ctx(t), run, large, 0); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // the second time it is not there
			if err := a.Remove(ctx(t), "r1", ref.SHA256); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := a.Get(ctx(t), "r1", ref); !errors.Is(err, kernel.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
		if got, err := a.Get(ctx(t), "r2", ref); err != nil || !bytes.Equal(got, large) {
			t.Errorf("the other run's: %d bytes, %v", len(got), err)
		}
		if _, err := a.Put(ctx(t), "r1", large, 0); err != nil {
			t.Fatal(err)
		}
		if got, err := a.Get(ctx(t), "r1", ref); err != nil || !bytes.Equal(got, large) {
			t.Errorf("put again: %d bytes, %v", len(got), err)
		}
		if all, err := a.Stored(ctx(t)); err != nil || len(all) != 2 {
			t.Errorf("%+v, %v", all, err)
		}
	})
}
