package persister

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/keychain"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

var errCut = errors.New("cut")

// cutLog is a log of keys that a crash cuts off from its persister, before or after the next append.
type cutLog struct {
	kernel.Journal
	before, after bool
}

func (l *cutLog) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	if l.before {
		return kernel.Ack{Outcome: kernel.Denied, Err: errCut}
	}
	ack := l.Journal.Append(ctx, e)
	if l.after {
		return kernel.Ack{Outcome: kernel.Denied, Err: errCut}
	}
	return ack
}

// cutKV is a bucket that cannot be written.
type cutKV struct{ kernel.KV }

func (cutKV) Create(context.Context, string, []byte) error { return errCut }

// bench is a station with a file of a key.
type bench struct {
	t    *testing.T
	st   *mem.Station
	path string
}

func newBench(t *testing.T, f keychain.File) *bench {
	t.Helper()
	st, err := mem.New("s", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, st: st, path: filepath.Join(t.TempDir(), "anchor.key")}
	b.write(f)
	return b
}

func (b *bench) write(f keychain.File) {
	b.t.Helper()
	if err := os.WriteFile(b.path, f.Format(), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// signer is that of a process that begins now.
func (b *bench) signer(log kernel.Journal, state kernel.KV) (*signer, error) {
	b.t.Helper()
	text, err := os.ReadFile(b.path)
	if err != nil {
		b.t.Fatal(err)
	}
	in := &service.Instance{Base: service.Base{Station: "s"}, Log: zerolog.Nop(),
		Ports: service.Ports{KeysLog: log, State: state, Entropy: rand.Reader}}
	k := &keeping{in: in, cfg: Config{Base: in.Base,
		Archives: service.Archives{AnchorKey: secret.New(string(text)), AnchorKeyFile: b.path}}}
	return k.signer(b.t.Context())
}

func (b *bench) log() kernel.Journal { return b.st.JournalFor(events.KeysAggregate) }

func (b *bench) start() *signer {
	b.t.Helper()
	s, err := b.signer(b.log(), b.st.KV(topology.StateBucket))
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// links is how many the log has, and the key in force.
func (b *bench) links() (n int, current string) {
	b.t.Helper()
	l, err := keychain.NewLedger(keychain.LedgerConfig{Station: "s", By: events.Persister, Journal: b.log(), Entropy: rand.Reader})
	if err != nil {
		b.t.Fatal(err)
	}
	s, err := l.Fresh(b.t.Context(), events.KeysID)
	if err != nil {
		b.t.Fatal(err)
	}
	return len(s.Links), s.Current()
}

func (b *bench) signs(s *signer, want ed25519.PrivateKey) {
	b.t.Helper()
	got, err := s.key(b.t.Context())
	if err != nil || !bytes.Equal(got, want) {
		b.t.Errorf("signs with another key: %v", err)
	}
}

func private(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func replaced(old, next byte) keychain.File {
	link := keychain.Replace("s", events.KeyWasRotated, private(old), private(next), 0, time.Unix(1, 0))
	return keychain.File{Private: private(next), Links: []events.KeyLink{link}}
}

func TestSigner(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-20a a key that is replaced while the persister runs is taken up, published and settled", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, keychain.File{Private: private(1)})
		s := b.start()
		b.signs(s, private(1))
		if n, _ := b.links(); n != 0 {
			t.Errorf("%d links without a rotation", n)
		}
		b.write(replaced(1, 2))
		b.signs(s, private(2))
		if n, now := b.links(); n != 1 || now != audit.FormatPublic(private(2)) {
			t.Errorf("%d links, %s in force", n, now)
		}
		for _, k := range []byte{1, 2} {
			public := private(k).Public().(ed25519.PublicKey)
			if got, err := b.st.KV(topology.StateBucket).Get(t.Context(), audit.KeyPrefix+run.KeyID(public)); err != nil || string(got) != audit.FormatPublic(private(k)) {
				t.Errorf("key %d: %s, %v", k, got, err)
			}
		}
		if text, err := os.ReadFile(b.path); err != nil || strings.Count(string(text), "\n") != 1 {
			t.Errorf("%s, %v", text, err)
		}
	})
	for name, cut := range map[string]func(b *bench) (kernel.Journal, kernel.KV){
		"before the event of the rotation is stored": func(b *bench) (kernel.Journal, kernel.KV) {
			return &cutLog{Journal: b.log(), before: true}, b.st.KV(topology.StateBucket)
		},
		"after it is stored": func(b *bench) (kernel.Journal, kernel.KV) {
			return &cutLog{Journal: b.log(), after: true}, b.st.KV(topology.StateBucket)
		},
		"before the public key is published": func(b *bench) (kernel.Journal, kernel.KV) {
			return b.log(), cutKV{b.st.KV(topology.StateBucket)}
		},
	} {
		t.Run("PLUS-20a a persister that is killed "+name+" completes the rotation at its next start, once", func(t *testing.T) {
			t.Parallel()
			b := newBench(t, replaced(1, 2))
			if s, err := b.signer(cut(b)); err != nil || !s.owed {
				t.Fatalf("it is not cut: %+v, %v", s, err)
			}
			for range 2 {
				b.signs(b.start(), private(2))
				if n, now := b.links(); n != 1 || now != audit.FormatPublic(private(2)) {
					t.Errorf("%d links, %s in force", n, now)
				}
			}
			b.write(replaced(1, 2)) // killed before the file was settled
			b.signs(b.start(), private(2))
			if n, _ := b.links(); n != 1 {
				t.Errorf("%d links", n)
			}
			if text, err := os.ReadFile(b.path); err != nil || strings.Count(string(text), "\n") != 1 {
				t.Errorf("%s, %v", text, err)
			}
		})
	}
	t.Run("PLUS-20a a persister with the old key signs nothing from the rotation on", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, keychain.File{Private: private(1)})
		late := b.start()
		late.path = "" // its key is a setting
		b.signs(late, private(1))
		b.write(replaced(1, 2))
		b.signs(b.start(), private(2))
		b.signs(late, nil)
		b.write(keychain.File{Private: private(1)}) // one that begins with the old key after it
		b.signs(b.start(), nil)
		if n, _ := b.links(); n != 1 {
			t.Errorf("%d links", n)
		}
	})
	t.Run("PLUS-20a a file that is damaged while the persister runs changes nothing", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, keychain.File{Private: private(1)})
		s := b.start()
		if err := os.WriteFile(b.path, []byte("rubbish"), 0o600); err != nil {
			t.Fatal(err)
		}
		b.signs(s, private(1))
		if _, err := b.signer(b.log(), b.st.KV(topology.StateBucket)); !errors.Is(err, keychain.ErrFile) {
			t.Errorf("it starts with that file: %v", err)
		}
		if err := os.Remove(b.path); err != nil {
			t.Fatal(err)
		}
		b.signs(s, private(1))
	})
	t.Run("PLUS-20a a key that certified itself into the file is refused, and signs nothing", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, replaced(1, 2))
		b.signs(b.start(), private(2))
		b.write(replaced(8, 9))
		b.signs(b.start(), nil)
		if n, now := b.links(); n != 1 || now != audit.FormatPublic(private(2)) {
			t.Errorf("%d links, %s in force", n, now)
		}
	})
}
