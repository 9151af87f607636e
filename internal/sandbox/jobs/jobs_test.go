package jobs

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/pkg/tool"
)

func TestOutput(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-14 the newest of a text is kept, in bounds, and what is behind a place is stored with where it stands", rapid.MakeCheck(func(r *rapid.T) {
		var all []byte
		var kept output
		for _, n := range rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 7, 4096, maxOutput / 3, maxOutput, maxOutput + 1, 2*maxOutput + 5}), 0, 8).Draw(r, "pieces") {
			piece := bytes.Repeat([]byte(fmt.Sprint(len(all)%9, "abcdefg")), n/8+1)[:n]
			all = append(all, piece...)
			kept.append(piece)
		}
		after := rapid.Int64Range(0, int64(len(all))+3).Draw(r, "after")
		text, from, to, _ := kept.behind(after)
		if to != int64(len(all)) || kept.size() != to || len(kept.tail) > maxOutput+maxOutput/4 {
			r.Fatalf("to %d of %d, %d bytes are held", to, len(all), len(kept.tail))
		}
		if want := min(max(after, to-maxOutput, 0), to); from != want || !bytes.Equal(text, all[from:to]) {
			r.Fatalf("behind %d: from %d, want %d, %d bytes", after, from, want, len(text))
		}
	}))
	t.Run("who waits is stored of more", func(t *testing.T) {
		t.Parallel()
		var kept output
		_, _, _, more := kept.behind(0)
		kept.append([]byte("x"))
		<-more
	})
}

func TestFate(t *testing.T) {
	t.Parallel()
	b := runtest.New("main", "r1")
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"),
		runtest.Turn(1, "a", "one call", runtest.Asked(1, 1, "bash", `{"command":"make","run_in_background":true}`)))
	ref := runtest.Ref("a", "c1-1", "bash")
	b.Append(runtest.CallYes(ref, "once"), runtest.CallBegun(ref, 1))
	fence := b.State().Open["c1-1"].Fence
	mine := &job{run: "r1", step: "a", call: "c1-1", handle: "bg-c1-1", fence: fence}
	t.Run("SAFE-7 SBX-15 what a call started runs while the call does, and then only where an event tells of it", func(t *testing.T) {
		if err := fate(b.State(), mine); err != nil {
			t.Errorf("while its call is made: %v", err)
		}
		if err := fate(b.State(), &job{run: "r1", step: "a", call: "c1-1", handle: "bg-c1-1", fence: fence - 1}); err != errUnrecorded { //nolint:errorlint // the very one
			t.Errorf("of an attempt that is not the current one: %v", err)
		}
		done := runtest.CallDone(ref, fence, "started")
		for _, stored := range []bool{false, true} {
			next := *b
			if stored {
				done.Background = &events.Background{ID: "bg-c1-1", Runner: "t1"}
			}
			next.Append(done)
			if err := fate(next.State(), mine); (err == nil) != stored {
				t.Errorf("stored %v: %v", stored, err)
			}
		}
	})
	t.Run("SBX-15 it ends with its step, and with a run of which nothing is known", func(t *testing.T) {
		for name, s := range map[string]run.State{"no step": {}, "ended": {Status: events.Failed}} {
			if err := fate(s, mine); err != errStepOver { //nolint:errorlint // the very one
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// idle is a sandbox of which only the end is noted.
type idle struct {
	sandbox.Sandbox
	mu    sync.Mutex
	ended int
}

func (i *idle) Destroy(context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended++
	return nil
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	t.Run("SBX-15 a sandbox of a step ends once, with the last who uses it", func(t *testing.T) {
		t.Parallel()
		var y registry
		sb := &idle{}
		open := func() *stepSandbox { return &stepSandbox{open: func() (sandbox.Sandbox, error) { return sb, nil }} }
		var all sync.WaitGroup
		_, first := y.enter("r", "s", open)
		for range 50 {
			all.Go(func() {
				if joined, leave := y.join("r", "s"); joined != nil {
					leave()
				}
			})
		}
		all.Wait()
		if sb.ended != 0 {
			t.Fatal("it ended while it was used")
		}
		if first(); sb.ended != 1 {
			t.Errorf("it ended %d times", sb.ended)
		}
		if joined, _ := y.join("r", "s"); joined != nil {
			t.Error("it can be joined after its end")
		}
	})
	t.Run("SAFE-14 there is room for so many of a run and of all, and none after the end", func(t *testing.T) {
		t.Parallel()
		var y registry
		add := func(run string) (*job, error) {
			b := &job{run: run, exited: make(chan struct{}), stop: func(error) {}}
			err := y.add(b)
			if err == nil {
				y.all.Done()
			}
			return b, err
		}
		var some *job
		for i := range maxHere {
			var err error
			if some, err = add(fmt.Sprint("r", i/maxPerRun)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := add("r0"); err == nil || tool.ClassOf(err) != tool.Permanent || !strings.Contains(err.Error(), "kill_shell") {
			t.Errorf("one more of a run: %v", err)
		}
		if _, err := add("other"); tool.ClassOf(err) != tool.Transient {
			t.Errorf("one more of all: %v", err)
		}
		close(some.exited)
		if _, err := add("other"); err != nil {
			t.Errorf("where one has ended: %v", err)
		}
		y.close()
		close(y.of("r0")[0].exited)
		if _, err := add("r0"); tool.ClassOf(err) != tool.Transient || err == nil {
			t.Errorf("after the end: %v", err)
		}
	})
}

// abroad is a sandbox on another machine.
type abroad struct{ sandbox.Sandbox }

func (abroad) Inside() string { return "/there" }

func TestShared(t *testing.T) {
	t.Parallel()
	t.Run("SBX-1 the sandbox of a step is seen as it is by each of its calls", func(t *testing.T) {
		t.Parallel()
		if got := sandbox.Seen(shared{abroad{}}); got != "/there" {
			t.Errorf("its workspace is seen at %q", got)
		}
	})
}
