package harness_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/harness"
	"github.com/inspan/inspan/pkg/station"
)

// The station of these tests has one agent, which answers from a script.
const (
	clerk  = "---\nname: clerk\ndescription: Says what it was told to\nmodel: scripted/clerk\ntools: [read]\nsandbox: {mode: host, network: true}\n---\nDo the task.\n"
	script = "turns:\n  - when: {turn: 1}\n    text: The letter is written.\n"
)

// stationIn starts a station in a folder.
func stationIn(ctx context.Context, dir, listen string) (*station.Station, error) {
	for name, text := range map[string]string{"agents/clerk.prompt": clerk, "scripts/clerk.yaml": script} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			return nil, err
		}
	}
	return station.Start(ctx, station.Config{Dir: filepath.Join(dir, "store"), Listen: listen, Agents: filepath.Join(dir, "agents"), Scripts: filepath.Join(dir, "scripts"),
		Sandbox: "host", LazySync: true})
}

func newStation(t testing.TB) *client.Client {
	t.Helper()
	st, err := stationIn(within(t), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return st.Client()
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// letters has three steps: each posts a letter, which must happen once, and notes it in the state.
type letters struct {
	harness.BaseHarness[purse, int, string]
	k       *killer
	posted  map[int]int
	meanMid func(step int)
}

func (l *letters) Execute(ctx context.Context, x *harness.Execution[purse, int, string]) iter.Seq2[harness.StepYield[int, string], error] {
	return func(yield func(harness.StepYield[int, string], error) bool) {
		for n := 1; n <= 3; n++ {
			price, err := harness.Do(ctx, x, harness.Effect[int]{Name: "price", Class: harness.Read, Do: func(context.Context, harness.Call) (int, error) { return n, nil }})
			if err == nil && l.meanMid != nil {
				l.meanMid(n)
			}
			out := "posted"
			if err == nil {
				_, err = harness.Do(ctx, x, harness.Effect[bool]{Name: "post", Do: func(context.Context, harness.Call) (bool, error) {
					if l.k != nil && l.k.point() {
						return false, errKilled
					}
					l.posted[n]++
					if l.k != nil && l.k.point() {
						return false, errKilled
					}
					return true, nil
				}})
			}
			if errors.Is(err, harness.ErrUnknownOutcome) {
				out, err = "unknown", nil
			}
			x.Update(func(s purse) purse { s.Coins -= price; return s })
			if !yield(harness.Pair(n, out), err) {
				return
			}
		}
	}
}

// logged are the steps in the log of a harness, which must be 1, 2, 3 and so on.
func logged(t *testing.T, c *client.Client, id string) []*events.HarnessSteppedData {
	t.Helper()
	var all []*events.HarnessSteppedData
	for e, err := range client.NewHarnesses(c).Events(within(t), id) {
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := e.Payload.(*events.HarnessSteppedData); ok {
			all = append(all, d)
			if d.Number != len(all) {
				t.Fatalf("step %d is the %d. of the log", d.Number, len(all))
			}
		}
	}
	return all
}

func TestStationKilled(t *testing.T) {
	t.Parallel()
	c := newStation(t)
	t.Run("SDK-21 DEPL-8 killed at each point, a program on a station goes on after the last step and posts no letter twice", func(t *testing.T) {
		whole := false
		for at := 1; !whole; at++ {
			id, posted := fmt.Sprintf("letters-%d", at), map[int]int{}
			ctx, cancel := context.WithCancelCause(within(t))
			k := &killer{at, cancel}
			run := func(ctx context.Context, k *killer) (*letters, error) {
				l := &letters{k: k, posted: posted}
				store := harness.NewStationStore(c)
				return l, harness.Run(ctx, l, harness.HarnessConfig[purse]{InitialState: purse{Coins: 10}}, harness.WithID(id), harness.WithStore(killing{store, k}))
			}
			l, err := run(ctx, k)
			if whole = err == nil; !whole {
				if !errors.Is(err, errKilled) {
					t.Fatalf("killed at %d: %v", at, err)
				}
				_, again := context.WithCancelCause(context.Background())
				if l, err = run(within(t), &killer{1 << 30, again}); err != nil {
					t.Fatalf("after it was killed at %d: %v", at, err)
				}
			}
			if steps := logged(t, c, id); len(steps) != 3 || l.CurrentStep() != 3 || l.State().Coins != 4 {
				t.Fatalf("killed at %d: %d steps in the log, %d here, state %+v", at, len(steps), l.CurrentStep(), l.State())
			}
			unknown := 0
			for n := 1; n <= 3; n++ {
				out := l.StepHistory()[n-1].Output
				if posted[n] > 1 || posted[n] == 0 && out == "posted" {
					t.Errorf("killed at %d: letter %d was posted %d times and is %s", at, n, posted[n], out)
				}
				if out == "unknown" {
					unknown++
				}
			}
			if unknown > 1 || whole && unknown > 0 {
				t.Errorf("killed at %d: %d letters are unknown", at, unknown)
			}
		}
	})
	t.Run("SDK-21 a station lists its harnesses", func(t *testing.T) {
		ctx := within(t)
		for { // a row follows what is recorded
			all, err := client.NewHarnesses(c).List(ctx)
			if err != nil || len(all) < 10 {
				t.Fatalf("got %d, %v", len(all), err)
			}
			if !slices.ContainsFunc(all, func(h events.Harness) bool {
				return h.Name != "letters" || h.Steps != 3 || h.Status != events.HarnessIsCompleted
			}) {
				return
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				t.Fatalf("got %+v", all)
			}
		}
	})
}

// losing is a store whose acknowledgements are lost, each first one.
type losing struct {
	harness.Store
	lost *int
}

func (s losing) Record(ctx context.Context, id string, c harness.Control) error {
	err := s.Store.Record(ctx, id, c)
	if *s.lost++; err == nil && *s.lost%2 == 1 {
		return errors.New("the connection was lost")
	}
	return err
}

func TestStationLostAcknowledgement(t *testing.T) {
	t.Parallel()
	c := newStation(t)
	t.Run("SDK-21 a record whose acknowledgement is lost is asked for again, and recorded once", func(t *testing.T) {
		l, lost := &letters{posted: map[int]int{}}, 0
		err := harness.Run(within(t), l, harness.HarnessConfig[purse]{}, harness.WithID("lost"), harness.WithStore(losing{harness.NewStationStore(c), &lost}))
		if err != nil || lost < 20 || len(logged(t, c, "lost")) != 3 || l.posted[1] != 1 {
			t.Errorf("got %v after %d records, %d steps, %v", err, lost, len(logged(t, c, "lost")), l.posted)
		}
		for e, err := range client.NewHarnesses(c).Events(within(t), "lost") {
			if err != nil {
				t.Fatal(err)
			}
			if e.Sequence > 12 { // opened, attached, three times begun, settled and stepped, ended
				t.Errorf("event %d is %s", e.Sequence, e.Payload.Kind())
			}
		}
	})
}

func TestStationTwoPrograms(t *testing.T) {
	t.Parallel()
	c := newStation(t)
	t.Run("SDK-21 of two programs with one id one records: another holder is refused, a successor replaces the first", func(t *testing.T) {
		middle, on := make(chan struct{}), make(chan struct{})
		first := &letters{posted: map[int]int{}, meanMid: func(n int) {
			if n == 2 {
				close(middle)
				<-on
			}
		}}
		ended := make(chan error, 1)
		go func() {
			ended <- harness.Run(within(t), first, harness.HarnessConfig[purse]{}, harness.OnStation(c, "two"), harness.WithHolder("one", time.Hour))
		}()
		<-middle
		other := &letters{posted: first.posted}
		if err := harness.Run(within(t), other, harness.HarnessConfig[purse]{}, harness.OnStation(c, "two"), harness.WithHolder("two", time.Hour)); !errors.Is(err, harness.ErrBusy) {
			t.Fatalf("got %v, want ErrBusy", err)
		}
		if err := harness.Run(within(t), other, harness.HarnessConfig[purse]{}, harness.OnStation(c, "two"), harness.WithHolder("one", time.Hour)); err != nil {
			t.Fatal(err)
		}
		close(on)
		if err := <-ended; !errors.Is(err, harness.ErrReplaced) {
			t.Errorf("the first one: got %v, want ErrReplaced", err)
		}
		if steps := logged(t, c, "two"); len(steps) != 3 || steps[0].Epoch != 1 || steps[1].Epoch != 2 {
			t.Errorf("got %+v", steps)
		}
		for n := 1; n <= 3; n++ {
			if first.posted[n] != 1 {
				t.Errorf("letter %d was posted %d times", n, first.posted[n])
			}
		}
	})
	t.Run("SDK-21 programs that begin at the same time record each step once, and one on standby goes on for one that is gone", func(t *testing.T) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		posts, ends := map[int]int{}, []error{}
		for range 3 {
			wg.Go(func() {
				l := &letters{posted: map[int]int{}}
				err := harness.Run(within(t), l, harness.HarnessConfig[purse]{}, harness.OnStation(c, "race"))
				mu.Lock()
				defer mu.Unlock()
				ends = append(ends, err)
				for n, times := range l.posted {
					posts[n] += times
				}
			})
		}
		wg.Wait()
		good := 0
		for _, err := range ends {
			if err == nil {
				good++
			} else if !errors.Is(err, harness.ErrReplaced) {
				t.Error(err)
			}
		}
		if steps := logged(t, c, "race"); good == 0 || len(steps) != 3 {
			t.Errorf("%d programs ended well, %d steps", good, len(steps))
		}
		for n, times := range posts {
			if times > 1 {
				t.Errorf("letter %d was posted %d times", n, times)
			}
		}
		gone := &letters{posted: map[int]int{}, meanMid: func(n int) {}}
		ctx, cancel := context.WithCancel(within(t))
		gone.meanMid = func(n int) {
			if n == 2 {
				cancel()
			}
		}
		if err := harness.Run(ctx, gone, harness.HarnessConfig[purse]{}, harness.OnStation(c, "standby"), harness.WithHolder("gone", 0)); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		next := &letters{posted: gone.posted}
		err := harness.Run(within(t), next, harness.HarnessConfig[purse]{}, harness.OnStation(c, "standby"), harness.WithHolder("next", time.Second), harness.WithStandby())
		if err != nil || next.CurrentStep() != 3 {
			t.Errorf("got %v at step %d", err, next.CurrentStep())
		}
	})
}

// writer has the agent of the station write letters.
type writer struct {
	harness.BaseHarness[purse, string, harness.TaskResult]
	agent string
}

func (w *writer) Execute(ctx context.Context, x *harness.Execution[purse, string, harness.TaskResult]) iter.Seq2[harness.StepYield[string, harness.TaskResult], error] {
	return func(yield func(harness.StepYield[string, harness.TaskResult], error) bool) {
		for _, to := range []string{"anna", "ben"} {
			r, err := x.Dispatch(ctx, harness.Task{Agent: w.agent, Task: "Write to " + to})
			if !yield(harness.Pair(to, r), err) {
				return
			}
		}
	}
}

func TestStationDispatch(t *testing.T) {
	t.Parallel()
	c := newStation(t)
	t.Run("SDK-20 SDK-21 a step dispatches an agent of the station; killed anywhere, each letter is one run", func(t *testing.T) {
		for at := 1; at <= 9; at++ {
			ctx, cancel := context.WithCancelCause(within(t))
			store, w, id := harness.NewStationStore(c), &writer{agent: "clerk"}, fmt.Sprintf("writer-%d", at)
			config := harness.HarnessConfig[purse]{}
			err := harness.Run(ctx, w, config, harness.OnStation(c, id), harness.WithStore(killing{store, &killer{at, cancel}}))
			if err != nil {
				if !errors.Is(err, errKilled) {
					t.Fatalf("killed at %d: %v", at, err)
				}
				w = &writer{agent: "clerk"}
				if err := harness.Run(within(t), w, config, harness.OnStation(c, id)); err != nil {
					t.Fatalf("after it was killed at %d: %v", at, err)
				}
			}
			for _, s := range w.StepHistory() {
				if !s.Output.Success || s.Output.Output != "The letter is written." {
					t.Errorf("killed at %d: got %+v", at, s.Output)
				}
			}
			if w.CurrentStep() != 2 || w.StepHistory()[0].Output.Run == w.StepHistory()[1].Output.Run {
				t.Errorf("killed at %d: got %+v", at, w.StepHistory())
			}
		}
		ctx := within(t)
		for n := 0; n != 18; { // the index follows the log
			runs, err := c.Runs().List(ctx)
			if n = len(runs); err != nil || n > 18 {
				t.Fatalf("got %d runs, %v; want two of each of nine harnesses", n, err)
			}
		}
	})
	t.Run("SDK-20 an agent that the station does not have is refused with its reason", func(t *testing.T) {
		err := harness.Run(within(t), &writer{agent: "clark"}, harness.HarnessConfig[purse]{}, harness.OnStation(c, "clark"))
		if e, ok := errors.AsType[*harness.EffectError](err); !ok || e.Step != 1 {
			t.Errorf("got %v", err)
		}
		if err := harness.Run(within(t), &writer{agent: "clerk"}, harness.HarnessConfig[purse]{}); !errors.Is(err, harness.ErrNoAgents) {
			t.Errorf("got %v", err)
		}
	})
}
