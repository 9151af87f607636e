package run_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// history is a log as pkg/client reads it: the stored bytes of the events of one run, in order.
func history() *runtest.Builder {
	b := runtest.New("main", "run-1")
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("build"), runtest.Step("test", "build")),
		runtest.Ready("build"), runtest.GateAt("g-1", "build", ""))
	return b
}

// The state of a run is the fold of its log.
func ExampleFold() {
	s, err := run.Fold(run.State{}, history().Events()...)
	if err != nil {
		fmt.Println(err)
		return
	}
	done, total := s.StepsCompleted()
	fmt.Println(s.HarnessID, s.Status, done, "of", total, "steps, waits for", s.Waiting()[0].ID)
	// Output: run-1 running 0 of 2 steps, waits for g-1
}

// A watcher folds one event after the other. A log that was changed, cut or mixed up is refused.
func ExampleState_Apply() {
	log := history().Events()
	var s run.State
	for _, stored := range log[:3] {
		next, err := s.Apply(stored)
		if err != nil {
			fmt.Println(err)
			return
		}
		s = next
	}
	_, err := s.Apply(log[4])
	bad, _ := errors.AsType[*run.FoldError](err)
	fmt.Println(s.Sequence, bad.Sequence, bad.Kind)
	// Output: 3 5 gate.opened
}

// Info is a row of the list of runs.
func ExampleInfoOf() {
	i := run.InfoOf(history().State())
	fmt.Println(i.HarnessID, i.AgentName, i.Status, i.StepsTotal, len(i.Gates))
	// Output: run-1 worker running 2 1
}

// A state is stored and read again with a codec, which lifts those of earlier versions.
func ExampleCodec() {
	b, err := run.Codec{}.Encode(history().State())
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := run.Codec{}.Decode(b)
	fmt.Println(s.Sequence, err)
	_, err = run.Codec{}.Decode([]byte("{"))
	fmt.Println(errors.Is(err, run.ErrDamagedState))
	// Output:
	// 5 <nil>
	// true
}

// An anchor is a signed head: with it a log cannot be cut off unseen.
func ExampleAnchorOf() {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)) // a real one is random
	public, _ := key.Public().(ed25519.PublicKey)
	a := run.AnchorOf(history().State(), 17, time.Now(), key)
	fmt.Println(a.Run, a.Sequence, a.Key == run.KeyID(public), a.Verify(public))
	a.Sequence--
	fmt.Println(errors.Is(a.Verify(public), run.ErrAnchor))
	// Output:
	// run-1 5 true <nil>
	// true
}

// HashOf is what the next event of a run must name.
func ExampleHashOf() {
	log := history().Events()
	event, err := events.Decode(log[1])
	fmt.Println(event.PrevHash == run.HashOf(log[0]), err)
	// Output: true <nil>
}

// KeyOf tells whether two turns ask for the same calls.
func ExampleKeyOf() {
	one := []events.RequestedCall{runtest.Asked(1, 1, "bash", `{"command":"make"}`)}
	two := []events.RequestedCall{runtest.Asked(2, 1, "bash", `{"command":"make"}`)}
	fmt.Println(run.KeyOf(one) == run.KeyOf(two))
	// Output: true
}

// A list is a value: appending to it leaves the one before as it is.
func ExampleOf() {
	a := run.Of(1, 2)
	b := run.Append(a, 3)
	fmt.Println(a.Len(), b.Len(), b.At(2))
	// Output: 2 3 3
}

// Fork makes the state that another run begins with; ForkParts brings it into events.
func ExampleFork() {
	b := runtest.New("main", "run-1")
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("build")), runtest.Ready("build"), runtest.Allowed("build"))
	start, err := run.Fork(b.State(), "try it with make", false)
	if err != nil {
		fmt.Println(err)
		return
	}
	origin, parts, err := run.ForkParts(b.State(), start)
	fmt.Println(origin.Run, origin.Sequence, len(parts), err)
	// Output: run-1 5 1 <nil>
}
