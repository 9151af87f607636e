package audit_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func key(fill byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{fill}, ed25519.SeedSize))
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

// walk draws a legal history of at least so many events.
func walk(t *rapid.T, least, most int) *runtest.Builder {
	b := runtest.New("demo", "r")
	n := rapid.IntRange(least, most).Draw(t, "facts")
	for len(b.Events()) < n {
		moves := slices.DeleteFunc(runtest.Moves(b.State()), func(p events.Payload) bool {
			return len(b.Events()) < n-1 && (p.Kind() == events.RunFailed || p.Kind() == events.RunCompleted || p.Kind() == events.RunPaused)
		})
		if len(moves) == 0 {
			moves = []events.Payload{runtest.Checkpoint(b.State())}
		}
		if _, err := b.Try(rapid.SampledFrom(moves).Draw(t, "move")); err != nil {
			t.Fatalf("a legal move does not fit: %v", err)
		}
		if b.State().Status.Ended() {
			break
		}
	}
	return b
}

// mutations change a log in every way that somebody with access to its store could.
var mutations = map[string]func(*rapid.T, [][]byte) [][]byte{
	"a byte is changed": func(t *rapid.T, f [][]byte) [][]byte {
		i := rapid.IntRange(0, len(f)-1).Draw(t, "fact")
		b := bytes.Clone(f[i])
		b[rapid.IntRange(0, len(b)-1).Draw(t, "byte")] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		f[i] = b
		return f
	},
	"a byte is added": func(t *rapid.T, f [][]byte) [][]byte {
		i := rapid.IntRange(0, len(f)-1).Draw(t, "fact")
		at := rapid.IntRange(0, len(f[i])).Draw(t, "byte")
		f[i] = slices.Insert(bytes.Clone(f[i]), at, rapid.SampledFrom([]byte{' ', '\r', '\t', 0, '0', 'a'}).Draw(t, "which"))
		return f
	},
	"an event is dropped": func(t *rapid.T, f [][]byte) [][]byte {
		i := rapid.IntRange(0, len(f)-1).Draw(t, "fact")
		return slices.Delete(f, i, i+1)
	},
	"two events are swapped": func(t *rapid.T, f [][]byte) [][]byte {
		i := rapid.IntRange(0, len(f)-2).Draw(t, "one")
		j := rapid.IntRange(i+1, len(f)-1).Draw(t, "other")
		f[i], f[j] = f[j], f[i]
		return f
	},
	"the end is cut off": func(t *rapid.T, f [][]byte) [][]byte {
		return f[:rapid.IntRange(0, len(f)-1).Draw(t, "left")]
	},
	"an event is torn": func(t *rapid.T, f [][]byte) [][]byte {
		i := rapid.IntRange(0, len(f)-1).Draw(t, "fact")
		f[i] = f[i][:rapid.IntRange(1, len(f[i])-1).Draw(t, "left")]
		return f
	},
	"an event is repeated": func(t *rapid.T, f [][]byte) [][]byte {
		i := rapid.IntRange(0, len(f)-1).Draw(t, "fact")
		return slices.Insert(f, rapid.IntRange(0, len(f)).Draw(t, "to"), f[i])
	},
	"the log is written again from an event on, with hashes that fit": func(t *rapid.T, f [][]byte) [][]byte {
		i := rapid.IntRange(0, len(f)-1).Draw(t, "fact")
		prev := ""
		for n := i; n < len(f); n++ {
			var ev events.Event
			if err := json.Unmarshal(f[n], &ev); err != nil {
				t.Fatal(err)
			}
			if n == i {
				ev.ID = "another"
			} else {
				ev.PrevHash = prev
			}
			b, err := ev.Encode()
			if err != nil {
				t.Fatal(err)
			}
			f[n], prev = b, run.HashOf(b)
		}
		return f
	},
}

// find audits a log against an anchor at the head of the true one.
func find(t *rapid.T, truth *runtest.Builder, evs [][]byte) audit.Report {
	cfg := audit.Config{Run: "r", Anchors: []run.Anchor{run.AnchorOf(truth.State(), 99, runtest.Start, key(1))}, Keys: []ed25519.PublicKey{public(key(1))}}
	r, err := audit.File(context.Background(), cfg, bytes.NewReader(runtest.Lines(evs)))
	if err != nil {
		t.Fatalf("audit: %v", err)
	}
	return r
}

// leastMutations is how many mutations a run of the property must have tried.
const leastMutations = 500

func TestEveryMutationIsFound(t *testing.T) {
	t.Parallel()
	tried := 0
	t.Run("SAFE-3c whatever is changed, dropped, swapped, repeated, rewritten or cut off is found, every time", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			b := walk(t, 2, 40)
			for _, name := range slices.Sorted(func(yield func(string) bool) {
				for n := range mutations {
					if !yield(n) {
						return
					}
				}
			}) {
				evs := mutations[name](t, slices.Clone(b.Events()))
				if same(evs, b.Events()) {
					t.Fatalf("%s: nothing was changed", name)
				}
				tried++
				r := find(t, b, evs)
				if r.Sound || r.First == nil || r.First.Why == "" {
					t.Fatalf("%s: not found in %d events: %+v", name, len(evs), r)
				}
				if first := firstOther(evs, b.Events()); r.First.Sequence > uint64(first)+2 && r.First.Sequence != b.State().Sequence {
					t.Fatalf("%s in fact %d: the first wrong one is said to be %d", name, first+1, r.First.Sequence)
				}
			}
		})
	})
	if tried < leastMutations {
		t.Errorf("%d mutations were tried, want at least %d", tried, leastMutations)
	}
	t.Logf("%d mutations tried, %d found", tried, tried)
}

func TestUntouchedIsSound(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-3 SAFE-2 a log that no one touched is sound, also with an older anchor", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			b := walk(t, 1, 60)
			if r := find(t, b, b.Events()); !r.Sound || r.Events != b.State().Sequence || r.Anchored != r.Events || !r.Signed || r.Head != b.State().Hash {
				t.Fatalf("%+v %v", r, r.First)
			}
			cut := rapid.IntRange(1, len(b.Events())).Draw(t, "anchor")
			old, err := run.Fold(run.State{}, b.Events()[:cut]...)
			if err != nil {
				t.Fatal(err)
			}
			cfg := audit.Config{Anchors: []run.Anchor{run.AnchorOf(old, 1, runtest.Start, key(1))}}
			r, err := audit.File(context.Background(), cfg, bytes.NewReader(bytes.Join(b.Events(), []byte("\n"))))
			if err != nil || !r.Sound || r.Anchored != uint64(cut) || r.Signed {
				t.Fatalf("%v %+v", err, r)
			}
		})
	})
}

func same(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }

// firstOther is the index of the first event that is not as it was.
func firstOther(a, b [][]byte) int {
	for i := range min(len(a), len(b)) {
		if !bytes.Equal(a[i], b[i]) {
			return i
		}
	}
	return min(len(a), len(b))
}

func ExampleFile() {
	b := runtest.New("demo", "r")
	b.Append(runtest.Created(), runtest.Started())
	anchor := run.AnchorOf(b.State(), 2, runtest.Start, key(1))
	r, err := audit.File(context.Background(), audit.Config{Anchors: []run.Anchor{anchor}}, bytes.NewReader(runtest.Lines(b.Events()[:1])))
	fmt.Println(r.Sound, r.First, err)
	// Output: false event 2: is missing: the log ends with event 1, the anchor of 2025-03-04 05:06:07 is at event 2: its end was truncated <nil>
}
