package workspace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// failing is an object store whose operation of a number fails.
type failing struct {
	kernel.Blobs
	n    atomic.Int64
	at   int64
	fail error
}

func (f *failing) Put(ctx context.Context, kind string, data []byte) (events.Ref, error) {
	if f.n.Add(1) == f.at {
		return events.Ref{}, f.fail
	}
	return f.Blobs.Put(ctx, kind, data)
}

func (f *failing) Get(ctx context.Context, ref events.Ref) ([]byte, error) {
	if f.n.Add(1) == f.at {
		return nil, f.fail
	}
	return f.Blobs.Get(ctx, ref)
}

func TestParts(t *testing.T) {
	t.Parallel()
	pack := make([]byte, 3*partBytes+1)
	if _, err := rand.NewChaCha8([32]byte{7}).Read(pack); err != nil {
		t.Fatal(err)
	}
	l := newLab(t)
	put := func(t *testing.T, s *failing) (Pack, error) {
		return storePack(t.Context(), s, "id", bytes.NewReader(pack))
	}
	whole, err := put(t, &failing{Blobs: l.st.Blobs()})
	if err != nil || len(whole.Parts) != 4 {
		t.Fatalf("%d parts, %v", len(whole.Parts), err)
	}
	read := func(t *testing.T, s *failing) ([]byte, error) {
		p := &parts{ctx: t.Context(), from: s, refs: whole.Parts}
		defer p.close()
		return io.ReadAll(p)
	}
	t.Run("WS-3 the parts of a large pack come back in their order", func(t *testing.T) {
		t.Parallel()
		if got, err := read(t, &failing{Blobs: l.st.Blobs()}); err != nil || !bytes.Equal(got, pack) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		p := &parts{ctx: t.Context(), from: l.st.Blobs(), refs: whole.Parts}
		if _, err := p.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
		p.close()
		if n, err := p.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("after its end: %d, %v", n, err)
		}
	})
	t.Run("WS-3 SAFE-15 a part that cannot be put, or is missing or damaged when it is read, is an error whichever it is", func(t *testing.T) {
		t.Parallel()
		for at := int64(1); at <= 4; at++ {
			full := &failing{Blobs: l.st.Blobs(), at: at, fail: kernel.ErrFull}
			if p, err := put(t, full); !errors.Is(err, kernel.ErrFull) || len(p.Parts) != 0 {
				t.Errorf("put %d: %d parts, %v", at, len(p.Parts), err)
			}
			for fail, damaged := range map[error]bool{kernel.ErrNotFound: true, kernel.ErrDamagedObject: true, context.DeadlineExceeded: false} {
				_, err := read(t, &failing{Blobs: l.st.Blobs(), at: at, fail: fail})
				if !errors.Is(err, fail) || errors.Is(err, ErrDamaged) != damaged {
					t.Errorf("get %d: got %v for %v", at, err, fail)
				}
			}
		}
	})
}
