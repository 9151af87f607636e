package station

import (
	"context"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// counted is a journal that counts what is appended.
type counted struct {
	kernel.Journal
	n int
}

func (c *counted) Append(context.Context, kernel.Entry) kernel.Ack {
	c.n++
	return kernel.Ack{Outcome: kernel.Stored}
}

func TestAuthor(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-6 where the roles share a connection each still says its own events alone", func(t *testing.T) {
		t.Parallel()
		for _, role := range events.Services() {
			all, own := &counted{}, 0
			for _, w := range events.Registry() {
				ack := author{Journal: all, role: role}.Append(t.Context(), kernel.Entry{ID: "r1", Kind: w.Kind})
				want := kernel.Denied
				if w.Author == role {
					want = kernel.Stored
					own++
				}
				if ack.Outcome != want {
					t.Errorf("%s says %s: %s, want %s", role, w.Kind, ack.Outcome, want)
				}
			}
			if all.n != own || (author{Journal: all, role: role}).Append(t.Context(), kernel.Entry{Kind: "nonsense"}).Outcome != kernel.Denied {
				t.Errorf("%s appended %d events, want its own %d", role, all.n, own)
			}
		}
	})
	t.Run("SAFE-6 the roles of a real station have such journals", func(t *testing.T) {
		t.Parallel()
		s, err := Up(t.Context(), Config{StoreDir: t.TempDir(), Still: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		}()
		all, err := portsOf(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		for _, role := range events.Services() {
			for _, w := range events.Registry() {
				if w.Author == role {
					continue
				}
				if ack := all[role].Journal.Append(t.Context(), kernel.Entry{ID: "r1", Kind: w.Kind, Bytes: []byte("{}")}); ack.Outcome != kernel.Denied {
					t.Errorf("%s says %s: %s, want %s", role, w.Kind, ack.Outcome, kernel.Denied)
				}
			}
		}
	})
}
