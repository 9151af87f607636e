//go:build slow

package faults

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// claims is several writers who each want their event to be the next of the same runs, through other nodes, while the
// nodes are under faults: what call.started is to several toolrunners. It has a station of its own, where no one hears.
type claims struct {
	f    *fleet
	stop context.CancelFunc
	work sync.WaitGroup

	mu sync.Mutex
	// ops and their runs, guarded by mu.
	ops  []claim
	runs map[string]bool
}

// claim is one append and what its writer was told.
type claim struct {
	writer        int
	run, bytes    string
	head          uint64
	called, ended time.Time
	outcome       kernel.Outcome
	seq           uint64
}

const (
	claimStation = "claims"
	// writers of claims, and how many are made on one run before the next one: long histories are slow to judge.
	writers   = 3
	perRun    = 40
	claimRest = 250 * time.Millisecond
)

// claim begins to claim until end.
func (f *fleet) claim(ctx context.Context, seed uint64) *claims {
	f.t.Helper()
	c := &claims{f: f, runs: map[string]bool{}}
	ctx, c.stop = context.WithCancel(ctx)
	for i := range writers {
		seat := f.connect(ctx, fmt.Sprintf("claimer.%d", i+1), i)
		if i == 0 {
			if err := seat.conn.Setup().Apply(ctx, claimStation, jet.ApplyOptions{Replicas: len(f.nodes)}); err != nil {
				f.t.Fatal(err)
			}
		}
		st, err := seat.conn.Station(claimStation)
		if err != nil {
			f.t.Fatal(err)
		}
		c.work.Go(func() { c.write(ctx, i, st.Journal(), rand.New(rand.NewPCG(seed, uint64(100+i)))) })
	}
	f.t.Cleanup(c.end)
	return c
}

func (c *claims) end() {
	c.stop()
	c.work.Wait()
}

// write claims on and on: behind the event that this writer knows as the last, which may be an old one.
func (c *claims) write(ctx context.Context, writer int, j kernel.Journal, chance *rand.Rand) {
	for n := 0; ctx.Err() == nil; n++ {
		c.mu.Lock()
		runID := fmt.Sprintf("claimed-%d", len(c.ops)/perRun)
		c.runs[runID] = true
		c.mu.Unlock()
		look, cancel := context.WithTimeout(ctx, 2*time.Second)
		last, _, err := j.Last(look, runID)
		cancel()
		if pause(ctx, time.Duration(chance.Int64N(int64(claimRest)))); err != nil {
			continue
		}
		op := claim{writer: writer, run: runID, bytes: fmt.Sprintf(`{"claim":"%d-%d"}`, writer, n), head: last.Seq, called: time.Now()}
		ack := j.Append(ctx, kernel.Entry{ID: runID, Kind: events.CallStarted, Head: op.head, Bytes: []byte(op.bytes)})
		op.ended, op.outcome, op.seq = time.Now(), ack.Outcome, ack.Seq
		c.mu.Lock()
		c.ops = append(c.ops, op)
		c.mu.Unlock()
	}
}

// judge holds the claims against the log: the history must be that of a register with compare-and-set, where a claim
// that was stored stands right behind the event that it named, and one that was refused stands nowhere (SAFE-4).
func (c *claims) judge(ctx context.Context, v *verdicts) {
	c.end()
	at := map[string]uint64{}
	st, err := c.f.connect(ctx, "auditor", 0).conn.Station(claimStation)
	if err != nil {
		v.violate("read the claims: %v", err)
		return
	}
	stored := 0
	for runID := range c.runs {
		evs, err := readWhole(ctx, st.Journal(), runID)
		if err != nil {
			v.violate("read the claims on %s: %v", runID, err)
			return
		}
		for _, r := range evs {
			at[runID+string(r.Bytes)] = r.Seq
			stored++
		}
	}
	var history []porcupine.Operation
	unknown := 0
	for _, op := range c.ops {
		seq, there := at[op.run+op.bytes]
		told := porcupine.Operation{ClientId: op.writer, Input: op, Call: op.called.UnixNano(), Output: seq, Return: op.ended.UnixNano()}
		switch op.outcome {
		case kernel.Stored:
			if seq != op.seq {
				v.violate("SAFE-4: claim %s on %s was stored at %d, and stands at %d (0 is nowhere)", op.bytes, op.run, op.seq, seq)
				continue
			}
		case kernel.Unknown:
			unknown++
			if told.Return = math.MaxInt64; !there {
				continue
			}
		default:
			if there {
				v.violate("SAFE-4: claim %s on %s was refused, and stands at %d", op.bytes, op.run, seq)
			}
			continue
		}
		history = append(history, told)
	}
	v.row("claims by compare-and-set, stored, of unknown outcome", fmt.Sprintf("%d, %d, %d", len(c.ops), stored, unknown), "")
	linear(v, "SAFE-4", "claims (compare-and-set)", claimModel, history)
}

// readWhole reads a run up to what the leader has: a replica that answers may be behind it.
func readWhole(ctx context.Context, j kernel.Journal, runID string) (evs []kernel.Record, err error) {
	wait, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	until(wait, func() bool {
		last, ok, asked := j.Last(ctx, runID)
		if err = asked; err != nil {
			return false
		}
		evs, err = readAll(ctx, j, runID)
		return err == nil && (!ok || len(evs) > 0 && evs[len(evs)-1].Seq >= last.Seq)
	})
	return evs, err
}

// claimModel is a register that holds the position of the last event.
var claimModel = porcupine.Model{
	Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
		return parts(all, func(o porcupine.Operation) string { return o.Input.(claim).run })
	},
	Init: func() any { return uint64(0) },
	Step: func(state, input, output any) (bool, any) {
		return input.(claim).head == state.(uint64), output
	},
}

// gateModel is a register that takes its first value: each answer is told who won, and that is the first.
var gateModel = porcupine.Model{
	Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
		return parts(all, func(o porcupine.Operation) string { a := o.Input.(answer); return a.run + " " + a.gate })
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		a := input.(answer)
		now := state.(string)
		if now == "" {
			now = a.by + " " + map[string]string{"approve": "approved", "reject": "rejected"}[a.decision]
		}
		return output == "" || output == now, now
	},
}

func parts(all []porcupine.Operation, of func(porcupine.Operation) string) [][]porcupine.Operation {
	by := map[string][]porcupine.Operation{}
	for _, o := range all {
		by[of(o)] = append(by[of(o)], o)
	}
	var some [][]porcupine.Operation
	for _, p := range by {
		some = append(some, p)
	}
	return some
}

// gateHistory is the answers as a history. An answer that may not have been stored counts only where it won: else it
// may never have been given.
func gateHistory(w view, answers []answer) []porcupine.Operation {
	var history []porcupine.Operation
	for i, a := range answers {
		o := porcupine.Operation{ClientId: i % 64, Input: a, Call: a.asked.UnixNano(), Output: a.winner, Return: a.told.UnixNano()}
		if a.winner == "" {
			s := w.states[a.run]
			if g := s.Gate(a.gate); g == nil || g.By != a.by {
				continue
			}
			o.Return = math.MaxInt64
		}
		history = append(history, o)
	}
	return history
}

// linear judges a history, and says where it could not in time.
func linear(v *verdicts, id, what string, m porcupine.Model, history []porcupine.Operation) {
	got := porcupine.CheckOperationsTimeout(m, history, 20*time.Second)
	v.row("history of "+what+" is linearizable", fmt.Sprintf("%s, %d operations", got, len(history)), "Ok")
	switch got {
	case porcupine.Illegal:
		v.violate("%s: the history of %s is not linearizable", id, what)
	case porcupine.Unknown:
		v.untried("the history of %s was too long to be judged in 20 s", what)
	}
}
