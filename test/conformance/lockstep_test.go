package conformance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// step is one operation of a sequence; say is its outcome in words, the same words on each side.
type step struct {
	what string
	// again says which outcomes a server may show first that the model does not; the same is asked again then.
	again func(got, want string) (reason string, ok bool)
	do    func(ctx context.Context, s *side) string
}

var runNames = []string{"a", "b", "c"}

// dealer makes up sequences. It knows what the model stored, which by then all sides agree on.
type dealer struct {
	*rand.Rand
	n      int
	of     string // the station
	heads  map[string][]uint64
	blobs  []events.Ref
	agreed func(op, outcome string)
}

func (d *dealer) bytes(size int) []byte {
	d.n++
	return append(fmt.Appendf(nil, "%d:", d.n), bytes.Repeat([]byte("x"), size)...)
}

var kindsSaid = []events.Kind{events.RunCreated, events.TurnFinished, events.CallStarted, events.StepAllowed, events.CallFinished}

// next deals one operation.
func (d *dealer) next() step {
	switch n := d.IntN(100); {
	case n < 40:
		return d.append()
	case n < 58:
		return d.read()
	case n < 66:
		return d.last()
	case n < 84:
		return d.onKV()
	case n < 92:
		return d.onBlobs()
	case n < 95:
		return d.lease()
	default:
		return d.refused()
	}
}

// head picks the right head, an older one, or one that never was.
func (d *dealer) head(run string) uint64 {
	known := d.heads[run]
	var right uint64
	if len(known) > 0 {
		right = known[len(known)-1]
	}
	switch d.IntN(10) {
	case 0:
		if len(known) > 1 {
			return known[d.IntN(len(known)-1)]
		}
		return 0
	case 1:
		return right + 1 + d.Uint64N(3)
	case 2:
		return 1 << 40
	}
	return right
}

func (d *dealer) append() step {
	run := runNames[d.IntN(len(runNames))]
	e := kernel.Entry{ID: run, Kind: kindsSaid[d.IntN(len(kindsSaid))], Head: d.head(run), Bytes: d.bytes(d.IntN(200))}
	switch d.IntN(25) {
	case 0:
		e.Bytes = d.bytes(events.MaxEvent)
	case 1:
		e.ID = []string{"", "a.b", "*", ">", "a b", strings.Repeat("x", 65)}[d.IntN(6)]
	case 2:
		e.Bytes = d.bytes(events.MaxEvent - 20)
	}
	d.agreed = func(_, outcome string) {
		var at uint64
		if _, err := fmt.Sscanf(outcome, "stored %d", &at); err == nil {
			d.heads[run] = append(d.heads[run], at)
		}
	}
	return step{what: fmt.Sprintf("append to %.9q at %d, %d bytes", e.ID, e.Head, len(e.Bytes)), again: appendAgain,
		do: func(ctx context.Context, s *side) string { return sayAck(s.journal().Append(ctx, e)) }}
}

func sayAck(a kernel.Ack) string {
	if a.Outcome == kernel.Stored || a.Outcome == kernel.Conflict {
		return fmt.Sprintf("%s %d", a.Outcome, a.Seq)
	}
	return a.Outcome.String()
}

func appendAgain(got, want string) (string, bool) {
	switch {
	case got == "transient":
		return transient, true
	case strings.HasPrefix(got, "conflict") && strings.HasPrefix(want, "stored"):
		return lowConflict, true
	}
	return "", false
}

func (d *dealer) read() step {
	run := runNames[d.IntN(len(runNames))]
	after := uint64(d.IntN(40))
	if known := d.heads[run]; len(known) > 0 && d.IntN(2) == 0 {
		after = known[max(0, len(known)-1-d.IntN(5))]
	}
	return step{what: fmt.Sprintf("read %s after %d", run, after),
		again: func(got, want string) (string, bool) {
			return staleRead, strings.HasPrefix(want, strings.TrimSuffix(got, "."))
		},
		do: func(ctx context.Context, s *side) string {
			evs, more, err := s.journal().Read(ctx, run, after)
			if err != nil {
				return sayErr(err)
			}
			var b strings.Builder
			for _, f := range evs {
				fmt.Fprintf(&b, "%d=%x ", f.Seq, sha256.Sum256(f.Bytes))
			}
			if more {
				return b.String() + "more"
			}
			return b.String() + "."
		}}
}

func (d *dealer) last() step {
	run := runNames[d.IntN(len(runNames))]
	return step{what: "last of " + run, do: func(ctx context.Context, s *side) string {
		r, ok, err := s.journal().Last(ctx, run)
		if err != nil {
			return sayErr(err)
		}
		return fmt.Sprintf("%v %d=%x", ok, r.Seq, sha256.Sum256(r.Bytes))
	}}
}

func sayErr(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, kernel.ErrNotFound):
		return "not found"
	case errors.Is(err, kernel.ErrExists):
		return "exists"
	case errors.Is(err, kernel.ErrTooLarge):
		return "too large"
	}
	return "error"
}

var kvKeys = []string{"r1.index", "r1.snapshot", "r2.index", "x", "a-b_c/d=e"}

// badKeys are refused before they are sent.
var badKeys = []string{"", ".", "a.", ".a", "a..b", "a b", "*", ">", "a.*", "ä", "a\x00b", "a\nb"}

func (d *dealer) onKV() step {
	key := kvKeys[d.IntN(len(kvKeys))]
	if d.IntN(12) == 0 {
		key = badKeys[d.IntN(len(badKeys))]
	}
	value := d.bytes(d.IntN(50))
	if d.IntN(10) == 0 {
		value = nil
	}
	old := func(got, want string) (string, bool) { return staleKV, got != "error" }
	deleted := func(got, want string) (string, bool) { return staleKV, got == "exists" && want == "ok" }
	switch d.IntN(6) {
	case 0:
		return step{what: fmt.Sprintf("create %q", key), again: deleted, do: func(ctx context.Context, s *side) string { return sayErr(s.kv.Create(ctx, key, value)) }}
	case 1:
		return step{what: fmt.Sprintf("delete %q", key), do: func(ctx context.Context, s *side) string { return sayErr(s.kv.Delete(ctx, key)) }}
	case 2:
		prefix := []string{"", "r1.", "r2.", "none.", "r1", "*.", ">", "r1..", " ."}[d.IntN(9)]
		return step{what: fmt.Sprintf("keys of %q", prefix), again: old, do: func(ctx context.Context, s *side) string {
			keys, err := s.kv.Keys(ctx, prefix)
			if err != nil {
				return sayErr(err)
			}
			return fmt.Sprintf("%q", keys)
		}}
	case 3, 4:
		return step{what: fmt.Sprintf("get %q", key), again: old, do: func(ctx context.Context, s *side) string {
			v, err := s.kv.Get(ctx, key)
			if err != nil {
				return sayErr(err)
			}
			return fmt.Sprintf("%q", v)
		}}
	default:
		if d.IntN(30) == 0 {
			value = bytes.Repeat([]byte("v"), 2<<20)
		}
		return step{what: fmt.Sprintf("put %q, %d bytes", key, len(value)), do: func(ctx context.Context, s *side) string { return sayErr(s.kv.Put(ctx, key, value)) }}
	}
}

func (d *dealer) onBlobs() step {
	get := func(ref events.Ref) step {
		return step{what: fmt.Sprintf("get object %.9q of %d bytes", ref.SHA256, ref.Size), do: func(ctx context.Context, s *side) string {
			b, err := s.blobs.Get(ctx, ref)
			if err != nil {
				return sayErr(err)
			}
			return fmt.Sprintf("%d bytes %x", len(b), sha256.Sum256(b))
		}}
	}
	switch {
	case len(d.blobs) > 0 && d.IntN(2) == 0:
		ref := d.blobs[d.IntN(len(d.blobs))]
		switch d.IntN(6) {
		case 0:
			ref.Size++
		case 1:
			ref.SHA256 = fmt.Sprintf("%x", sha256.Sum256(d.bytes(1)))
		case 2:
			ref.SHA256 = []string{"", "..", "abc", strings.Repeat("z", 64), ">"}[d.IntN(5)]
		case 3:
			ref.Size = []int64{-1, 1 << 40}[d.IntN(2)]
		}
		return get(ref)
	}
	data := d.bytes([]int{0, 10, 1 << 10, 300 << 10}[d.IntN(4)])
	d.blobs = append(d.blobs, events.Ref{SHA256: fmt.Sprintf("%x", sha256.Sum256(data)), Size: int64(len(data)), Type: "text/plain"})
	return step{what: fmt.Sprintf("put object of %d bytes", len(data)), do: func(ctx context.Context, s *side) string {
		ref, err := s.blobs.Put(ctx, "text/plain", data)
		if err != nil {
			return sayErr(err)
		}
		return fmt.Sprintf("%+v", ref)
	}}
}

func (d *dealer) lease() step {
	name := []string{"i1", "i2", "", "a.b", "*"}[d.IntN(5)]
	if d.IntN(2) == 0 {
		return step{what: fmt.Sprintf("renew and look at %q", name), do: func(ctx context.Context, s *side) string {
			if err := s.leases.Renew(ctx, name); err != nil {
				return sayErr(err)
			}
			alive, err := s.leases.Alive(ctx, name)
			return fmt.Sprint(alive, " ", sayErr(err))
		}}
	}
	name = []string{"never", "", "a b"}[d.IntN(3)]
	return step{what: fmt.Sprintf("look at %q", name), do: func(ctx context.Context, s *side) string {
		alive, err := s.leases.Alive(ctx, name)
		return fmt.Sprint(alive, " ", sayErr(err))
	}}
}

// refused is what no side takes.
func (d *dealer) refused() step {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	switch d.IntN(4) {
	case 0:
		subject := []string{d.of + ".run.r.evt.run.created.x", "station.none.task", d.of + ".task.a.b", "task", d.of + ".task.", d.of + ".gate"}[d.IntN(6)]
		return step{what: fmt.Sprintf("publish on %q", subject), do: func(ctx context.Context, s *side) string { return sayErr(s.publish(ctx, subject, []byte("x"), nil)) }}
	case 1:
		name := []string{"", "run", "run.", ".x", "run.a.b", "nobody.x", "*.x", "run.*", "run.a b"}[d.IntN(9)]
		return step{what: fmt.Sprintf("timer %q", name), do: func(ctx context.Context, s *side) string {
			return sayErr(s.timers.Set(ctx, "r1", name, time.Now().Add(time.Hour), 0))
		}}
	case 2:
		run := []string{"", "a.b", "*", ">"}[d.IntN(4)]
		return step{what: fmt.Sprintf("read and last of %q", run), do: func(ctx context.Context, s *side) string {
			_, _, err := s.journal().Read(ctx, run, 0)
			_, _, err2 := s.journal().Last(ctx, run)
			return sayErr(err) + " " + sayErr(err2)
		}}
	}
	data := d.bytes(3)
	return step{what: "everything with an ended context", do: func(_ context.Context, s *side) string {
		ack := s.journal().Append(ended, kernel.Entry{ID: "ended", Kind: events.RunCreated, Bytes: data})
		_, _, err := s.journal().Read(ended, "a", 0)
		_, _, err2 := s.journal().Last(ended, "a")
		_, err3 := s.blobs.Put(ended, "", data)
		_, err4 := s.kv.Get(ended, "x")
		_, err5 := s.leases.Alive(ended, "i")
		return fmt.Sprint(ack.Outcome, sayErr(err), sayErr(err2), sayErr(err3), sayErr(err4), sayErr(s.kv.Put(ended, "x", data)), sayErr(err5),
			sayErr(s.leases.Renew(ended, "i")), sayErr(s.publish(ended, events.TaskSubject(s.station), data, nil)), sayErr(s.timers.Set(ended, "r", "run.x", time.Now(), 0)))
	}}
}

// lockstep does the same operations on the model and on another side, one after the other, and compares each outcome.
func lockstep(t *testing.T, model, real *side, dice *rand.Rand, n int, c *tally) {
	t.Helper()
	ctx := within(t)
	d := &dealer{Rand: dice, of: "station." + real.station, heads: map[string][]uint64{}}
	for range n {
		d.agreed = nil
		op := d.next()
		want := op.do(ctx, model)
		c.saw(model, word(want))
		got := op.do(ctx, real)
		c.saw(real, word(got))
		for got != want && ctx.Err() == nil {
			reason, ok := "", false
			if op.again != nil {
				reason, ok = op.again(got, want)
			}
			if !ok {
				c.violate(real, "%s: got %.300s, the model has %.300s", op.what, got, want)
				break
			}
			if !c.allow(real, reason, "%s: got %.300s, the model has %.300s", op.what, got, want) {
				break
			}
			got = op.do(ctx, real)
		}
		if ctx.Err() != nil {
			c.violate(real, "%s: still %.300s after %s, the model has %.300s", op.what, got, patience, want)
			return
		}
		c.agreed(1)
		if d.agreed != nil {
			d.agreed(op.what, want)
		}
	}
}

// word is the kind of an outcome for the count.
func word(outcome string) string {
	for _, w := range []string{"stored", "conflict", "transient", "unknown", "too large", "denied", "error", "not found", "exists", "ok"} {
		if strings.HasPrefix(outcome, w) {
			return w
		}
	}
	return "an answer"
}

func TestLockstep(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-4 the model and one server say the same, one operation after the other", func(t *testing.T) {
		t.Parallel()
		model, _ := onModel(t, terms{ackWait: time.Minute, lease: time.Minute})
		real := onServer(t, model.terms)
		c := newTally()
		lockstep(t, model, real, chance(t, 1), 400, c)
		c.tell(t)
	})
}
