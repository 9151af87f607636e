package harness_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/harness"
)

// errKilled is what the program is ended with at a point that was drawn.
var errKilled = errors.New("killed")

// world counts what effects did: how often each key was seen.
type world struct {
	done  map[string]int
	calls map[string]int
}

// killer ends a program at one of the points at which something happens: before a record, after it with its
// acknowledgement lost, before an effect, and after it. Each point counts down once.
type killer struct {
	left   int
	cancel context.CancelCauseFunc
}

func (k *killer) point() bool {
	k.left--
	if k.left == 0 {
		k.cancel(errKilled)
	}
	return k.left <= 0
}

// killing is a store whose program is killed around its records.
type killing struct {
	harness.Store
	k *killer
}

func (s killing) Record(ctx context.Context, id string, c harness.Control) error {
	if s.k.point() {
		return errKilled
	}
	err := s.Store.Record(ctx, id, c)
	if s.k.point() {
		return errKilled
	}
	return err
}

// drawnEffect is one of a drawn program.
type drawnEffect struct {
	class harness.Class
	fails bool
}

// program carries out drawn effects in each step, and yields what came of them.
type program struct {
	harness.BaseHarness[[]string, int, string]
	steps [][]drawnEffect
	w     *world
	k     *killer
}

func (p *program) Execute(ctx context.Context, x *harness.Execution[[]string, int, string]) iter.Seq2[harness.StepYield[int, string], error] {
	return func(yield func(harness.StepYield[int, string], error) bool) {
		for n, effects := range p.steps {
			out := ""
			for i, e := range effects {
				name := fmt.Sprintf("%d.%d", n, i)
				got, err := harness.Do(ctx, x, p.effect(name, e))
				switch {
				case errors.Is(err, harness.ErrUnknownOutcome):
					got = "unknown"
				case err != nil:
					if _, recorded := errors.AsType[*harness.EffectError](err); !recorded {
						yield(harness.StepYield[int, string]{}, err)
						return
					}
					got = "failed"
				}
				out += got + ";"
			}
			x.Update(func(s []string) []string { return append(s, out) })
			if !yield(harness.Pair(n, out), nil) {
				return
			}
		}
	}
}

func (p *program) effect(name string, e drawnEffect) harness.Effect[string] {
	effect := harness.Effect[string]{Name: name, Class: e.class, Do: func(_ context.Context, c harness.Call) (string, error) {
		if p.k.point() {
			return "", errKilled
		}
		p.w.calls[name]++
		if e.fails {
			return "", errors.New("it does not work")
		}
		p.w.done[c.Key]++
		if p.k.point() {
			return "", errKilled
		}
		return "ok" + name, nil
	}}
	if e.class == harness.Reconcilable {
		effect.Verify = func(_ context.Context, c harness.Call) (string, bool, error) {
			return "ok" + name, p.w.done[c.Key] > 0, nil
		}
	}
	return effect
}

// TestKilled ends drawn programs at drawn points, again and again, and runs them again until they are complete.
func TestKilled(t *testing.T) {
	t.Parallel()
	t.Run("SDK-21 SAFE-7 killed at any point a harness goes on, and each effect keeps the promise of its class", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			effect := rapid.Custom(func(t *rapid.T) drawnEffect {
				return drawnEffect{rapid.SampledFrom([]harness.Class{harness.Read, harness.Idempotent, harness.Reconcilable, harness.Once}).Draw(t, "class"), rapid.IntRange(0, 4).Draw(t, "fails") == 0}
			})
			steps := rapid.SliceOfN(rapid.SliceOfN(effect, 0, 3), 1, 4).Draw(t, "steps")
			store, w := &harness.MemoryStore{}, &world{done: map[string]int{}, calls: map[string]int{}}
			kills := rapid.SliceOfN(rapid.IntRange(1, 12), 0, 6).Draw(t, "kills")
			var last *program
			for try := 0; ; try++ {
				left := 1 << 30
				if try < len(kills) {
					left = kills[try]
				}
				ctx, cancel := context.WithCancelCause(context.Background())
				k := &killer{left, cancel}
				last = &program{steps: steps, w: w, k: k}
				options := []harness.Option{harness.WithStore(killing{store, k})}
				err := harness.Run(ctx, last, harness.HarnessConfig[[]string]{InitialState: []string{}}, options...)
				cancel(nil)
				if err == nil {
					break
				}
				if !errors.Is(err, errKilled) {
					t.Fatalf("try %d: %v", try, err)
				}
			}
			history := last.StepHistory()
			if len(history) != len(steps) || len(last.State()) != len(steps) {
				t.Fatalf("got %d steps and %d states, want %d", len(history), len(last.State()), len(steps))
			}
			for n, s := range history {
				if s.StepNumber != n+1 || s.Input != n || s.Output != last.State()[n] {
					t.Fatalf("step %d is %+v, state %q", n+1, s, last.State())
				}
				for i, e := range steps[n] {
					name := fmt.Sprintf("%d.%d", n, i)
					if calls := w.calls[name]; e.class == harness.Once && calls > 1 || e.class == harness.Reconcilable && !e.fails && calls > 1 {
						t.Fatalf("%s of class %s was carried out %d times", name, e.class, calls)
					}
				}
			}
			// a key belongs to one effect: what drops the second one by its key did each once
			effects, keys := 0, len(w.done)
			for _, es := range steps {
				for _, e := range es {
					if !e.fails {
						effects++
					}
				}
			}
			if keys > effects {
				t.Fatalf("%d keys of %d effects", keys, effects)
			}
		})
	})
}
