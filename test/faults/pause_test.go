//go:build slow

package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/test/faults/effects"
)

// pauses stops processes with SIGSTOP for longer than their lease and lets them wake: one replica of each service at a
// time, and then nodes.
func (w *world) pauses() {
	for range w.rounds {
		for replica := range 2 {
			w.zombies(replica + 1)
		}
		w.awake()
		for range 2 {
			name := w.leader(w.ctx)
			if name == "" {
				name = "n2"
			}
			w.fault("SIGSTOP of the node that leads the log", func() {
				w.signal(name, syscall.SIGSTOP)
				w.rest(9*time.Second, 11*time.Second)
				w.signal(name, syscall.SIGCONT)
			})
			w.wholeAgain("SIGSTOP of " + name)
		}
	}
}

// zombies stops one replica of each service while its toolrunner is in the middle of a once call, until the others have
// settled that call as unknown; then the zombie wakes, does what it was about to do, and must not be believed (SAFE-8).
func (w *world) zombies(replica int) {
	runner := fmt.Sprintf("toolrunner.%d", replica)
	var held effects.Line
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	found := until(ctx, func() bool {
		line, ok := w.inTheMiddle(w.pid(runner))
		held = line
		return ok
	})
	if !found {
		return
	}
	w.fault("SIGSTOP of one replica of each service, longer than its lease", func() {
		for _, s := range events.Services() {
			w.signal(fmt.Sprintf("%s.%d", s, replica), syscall.SIGSTOP)
		}
		if line, ok := w.later(held); ok && line.Moment == effects.End {
			// It was faster than the signal: then this is a pause as any other.
			w.rest(16*time.Second, 18*time.Second)
		} else {
			w.untilSettled(held)
		}
		for _, s := range events.Services() {
			w.signal(fmt.Sprintf("%s.%d", s, replica), syscall.SIGCONT)
		}
	})
	ctx, cancel = context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	if !until(ctx, func() bool { line, ok := w.later(held); return ok && line.Moment == effects.End }) {
		return
	}
	w.woken++
}

// awake says so where no process was stopped in the middle of a once call: then nothing was shown about zombies.
func (w *world) awake() {
	if w.woken == 0 {
		w.v.untried("zombies: no process was stopped in the middle of a once call this time; run it again")
	}
}

// untilSettled waits until the call of a line has ended for its run, which takes as long as its lease and the wait for
// its acknowledgement.
func (w *world) untilSettled(held effects.Line) {
	ctx, cancel := context.WithTimeout(w.ctx, 90*time.Second)
	defer cancel()
	until(ctx, func() bool {
		w.load.mu.Lock()
		defer w.load.mu.Unlock()
		i := slices.IndexFunc(w.load.tasks, func(t *task) bool { return t.id == held.Run })
		if i < 0 {
			return true
		}
		s := w.load.tasks[i].state
		for _, c := range run.All(s.ToolCallHistory) {
			if c.ID == held.Call {
				return true
			}
		}
		return false
	})
}

// inTheMiddle finds a once call that a process has just begun, and that takes long enough.
func (w *world) inTheMiddle(pid int) (effects.Line, bool) {
	lines, err := effects.Last(filepath.Join(w.dir, "effects"))
	if err != nil {
		w.v.violate("%v", err)
		return effects.Line{}, false
	}
	for _, l := range slices.Backward(lines) {
		if l.Process == pid && l.Class == tool.Once && l.Moment == effects.Begin && strings.HasPrefix(l.Run, "long") {
			return l, time.Since(l.At) < 2500*time.Millisecond
		}
	}
	return effects.Line{}, false
}

// later is the last line of a call in the process that began it.
func (w *world) later(held effects.Line) (effects.Line, bool) {
	lines, err := effects.Last(filepath.Join(w.dir, "effects"))
	if err != nil {
		return effects.Line{}, false
	}
	for _, l := range slices.Backward(lines) {
		if l.Run == held.Run && l.Call == held.Call && l.Process == held.Process {
			return l, true
		}
	}
	return effects.Line{}, false
}

// partitions cuts wires: a node from everybody, the services in halves, and one direction only.
func (w *world) partitions() {
	for i := range 2 * w.rounds {
		leader := w.leader(w.ctx)
		if leader == "" {
			leader = "n3"
		}
		w.fault("a node cut off from everybody", func() {
			w.net.part(only(leader), not(only(leader)))
			w.rest(10*time.Second, 12*time.Second)
			w.net.heal()
		})
		w.wholeAgain("a node was cut off")

		small := only(slices.Concat([]string{fmt.Sprintf("n%d", 1+w.chance.IntN(3)), fmt.Sprintf("client.%d", i%2+1)}, w.replica(i%2+1))...)
		w.fault("halves: a node, a replica of each service and a client from the rest", func() {
			w.net.part(small, not(small))
			w.rest(18*time.Second, 20*time.Second)
			w.net.heal()
		})
		w.wholeAgain("halves")

		if leader = w.leader(w.ctx); leader == "" {
			leader = "n1"
		}
		w.fault("one way: nothing reaches a node, or nothing leaves it", func() {
			if i%2 == 0 {
				w.net.silence(only(leader), not(only(leader)))
			} else {
				w.net.silence(not(only(leader)), only(leader))
			}
			w.rest(9*time.Second, 11*time.Second)
			w.net.heal()
		})
		w.wholeAgain("a one-way cut")
	}
}

// replica names one process of each service.
func (w *world) replica(n int) []string {
	var names []string
	for _, s := range events.Services() {
		names = append(names, fmt.Sprintf("%s.%d", s, n))
	}
	return names
}

// wipes loses the store of a node: it comes back empty, and the others fill it.
func (w *world) wipes() {
	for i := range 2 * w.rounds {
		name := fmt.Sprintf("n%d", 1+w.chance.IntN(3))
		if i%2 == 0 {
			if l := w.leader(w.ctx); l != "" {
				name = l
			}
		}
		w.fault("a node lost with its store", func() {
			w.stop(name, syscall.SIGKILL)
			w.wipe(name)
			w.start(name)
		})
		w.wholeAgain("the store of " + name + " was wiped")
	}
}

func (w *world) wipe(name string) {
	if err := os.RemoveAll(w.node(name).store); err != nil {
		w.v.violate("wipe %s: %v", name, err)
	}
}
