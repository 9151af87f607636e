//go:build slow

package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/quota"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/test/faults/effects"
)

// small is a world of one node and one process of each service.
func small(ctx context.Context, t *testing.T, cfg fleetConfig, seed uint64, v *verdicts, limits topology.Limits) *world {
	t.Helper()
	cfg.nodes, cfg.replicas = 1, 1
	w := &world{T: t, fleet: newFleet(t, cfg), ctx: ctx, v: v, chance: rand.New(rand.NewPCG(seed, 5)), rounds: 1, counts: map[string]int{}}
	writeAgents(w.fleet)
	w.start("n1")
	setUp(ctx, t, w.fleet, limits)
	for _, s := range w.services {
		w.start(s)
	}
	w.load = users(ctx, t, w.fleet, seed)
	w.load.keep("line", 3)
	w.load.keep("fan", 1)
	w.load.keep("ask", 1)
	w.flows("the start")
	return w
}

// flows waits until runs end again.
func (w *world) flows(after string) {
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	before := w.load.ended()
	if !until(ctx, func() bool { return w.load.ended() > before+1 }) {
		w.v.violate("LIFE-10: no run ended within a minute of %s; the services say: %s", after, w.words())
	}
}

// finish lets all runs end and checks that nothing that was stored is lost. It returns how many events were heard as
// stored and how many were lost.
func (w *world) finish(what string) (known, lost int) {
	w.load.stop()
	done := make(chan struct{})
	go func() { w.load.workers.Wait(); close(done) }()
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
	}
	w.load.quit()
	<-done
	lines, err := effects.Read(w.dir + "/effects")
	if err != nil {
		w.v.violate("%v", err)
	}
	w.ctx = context.Background()
	var ids []string
	for _, tk := range w.load.tasks {
		ids = append(ids, tk.id)
	}
	seen := w.read(w.ctx, w.nodes[0], ids, w.v)
	known, lost = seen.lost(w.load.received, w.v)
	seen.gatesHeld(w.load.answers, w.v)
	t := seen.join(lines, w.v)
	for _, tk := range w.load.tasks {
		if s := seen.states[tk.id]; tk.acked && s.Status != events.Completed {
			w.v.violate("PERS-15: %s: the task of run %s was taken; it has %d events and is %q", what, tk.id, s.Sequence, s.Status)
		}
	}
	w.v.row(what+": once effects, repeated, unknown", fmt.Sprintf("%d, %d, %d", t.effects[tool.Once], t.repeated[tool.Once], t.unknown), "0 repeated")
	return known, lost
}

// power is the world of power cuts: nothing that was acknowledged is lost, where the server syncs before it says so;
// and the same cut does lose events of a server that does not, so that we know that it cuts.
func power(t *testing.T, bin string, seed uint64, rounds int, v *verdicts) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rounds)*4*time.Minute)
	defer cancel()
	d, err := newDisk(t)
	if err != nil {
		v.untried("power cuts: this machine cannot mount a file: %v", err)
		return
	}
	w := small(ctx, t, fleetConfig{bin: bin, store: func(string) string { return d.mount + "/js" }}, seed, v, topology.Limits{})
	for range 2 * rounds {
		w.rest(2*time.Second, 4*time.Second)
		w.fault("power cut", func() {
			d.cut(w.fleet, "n1")
			w.start("n1")
		})
		w.flows("a power cut")
	}
	known, lost := w.finish("power cuts")
	v.row("power cuts, events acknowledged as stored, lost", fmt.Sprintf("%d, %d, %d", w.counts["power cut"], known, lost), "0 lost")
	for sync, want := range map[string]string{"always": "0 lost", "2m": "some lost, or the cut does not cut"} {
		acked, lost := bare(ctx, t, bin, sync, v)
		v.row("power cut of a bare server, sync_interval "+sync+": appends acknowledged, lost", fmt.Sprintf("%d, %d", acked, lost), want)
		if (sync == "always") != (lost == 0) {
			v.violate("SAFE-1: a power cut of a server with sync_interval %s lost %d of %d acknowledged events", sync, lost, acked)
		}
	}
}

// bare appends to a server without services, cuts the power and counts what is left.
func bare(ctx context.Context, t *testing.T, bin, sync string, v *verdicts) (acked, lost int) {
	d, err := newDisk(t)
	if err != nil {
		v.untried("a power cut of a bare server: %v", err)
		return 0, 0
	}
	f := newFleet(t, fleetConfig{bin: bin, nodes: 1, sync: sync, store: func(string) string { return d.mount + "/js" }})
	f.start("n1")
	setUp(ctx, t, f, topology.Limits{})
	if err := command("sync", "-f", d.mount); err != nil {
		t.Fatal(err)
	}
	j := f.connect(ctx, "client.1", 0).Journal()
	heads := map[uint64]string{}
	head := uint64(0)
	for i := range 200 {
		body := fmt.Sprintf(`{"n":%d}`, i)
		ack := j.Append(ctx, kernel.Entry{ID: "bare", Kind: events.CallStarted, Head: head, Bytes: []byte(body)})
		if ack.Outcome != kernel.Stored {
			v.violate("append to a bare server: %s, %v", ack.Outcome, ack.Err)
			return len(heads), 0
		}
		head = ack.Seq
		heads[head] = body
	}
	d.cut(f, "n1")
	f.start("n1")
	var left []kernel.Record
	if !until(ctx, func() bool { left, err = readAll(ctx, j, "bare"); return err == nil }) {
		v.violate("read a bare server after a power cut: %v", err)
	}
	for _, r := range left {
		if heads[r.Seq] == string(r.Bytes) {
			delete(heads, r.Seq)
		}
	}
	return 200, len(heads)
}

// full is the world without room: first the disk, then the log.
func full(t *testing.T, bin string, seed uint64, rounds int, v *verdicts) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rounds)*4*time.Minute)
	defer cancel()
	d, err := newSmallDisk(t, 96<<20)
	if err != nil {
		v.untried("full disk: this machine cannot mount a disk in memory: %v", err)
	} else {
		fullDisk(ctx, t, fleetConfig{bin: bin, store: func(string) string { return d.mount + "/js" }}, d, seed, rounds, v)
	}
	fullLog(ctx, t, fleetConfig{bin: bin}, seed, v)
}

func fullDisk(ctx context.Context, t *testing.T, cfg fleetConfig, d *disk, seed uint64, rounds int, v *verdicts) {
	w := small(ctx, t, cfg, seed, v, topology.Limits{})
	restarts := 0
	for range 2 * rounds {
		w.rest(time.Second, 2*time.Second)
		w.fault("full disk", func() {
			if err := d.fill(); err != nil {
				v.violate("fill the disk: %v", err)
			}
			before := w.load.refused()
			wait, stop := context.WithTimeout(ctx, 20*time.Second)
			w.load.workers.Go(func() {
				w.load.one("line", fmt.Sprintf("late-%d", w.counts["full disk"]), rand.New(rand.NewPCG(seed, 6)))
			})
			told := func() bool { return w.load.refused() > before || w.nodes[0].page(wait, "/healthz", nil) != nil }
			if !until(wait, told) {
				v.violate("SAFE-14: neither a client nor the health check was told of a full disk within 20 s")
			}
			stop()
			w.rest(3*time.Second, 4*time.Second)
			if err := d.free(); err != nil {
				v.violate("free the disk: %v", err)
			}
			// A platform asks the server how it is, and begins it again where it is not well.
			wait, stop = context.WithTimeout(ctx, 5*time.Second)
			defer stop()
			if !until(wait, func() bool { return w.nodes[0].page(wait, "/healthz", nil) == nil }) {
				restarts++
				w.stop("n1", syscall.SIGTERM)
				w.start("n1")
			}
		})
		w.flows("a full disk")
	}
	known, lost := w.finish("full disk")
	v.row("full disks, events acknowledged as stored, lost", fmt.Sprintf("%d, %d, %d", w.counts["full disk"], known, lost), "0 lost")
	v.row("full disk: servers that their health check began again", restarts, "")
	v.row("full disk: errors that clients received", w.load.troubles, "")
}

// refused counts what clients were told was wrong.
func (l *load) refused() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, times := range l.troubles {
		n += times
	}
	return n
}

// fullLog fills the station's log to its limit and raises the limit, as the runbook says.
func fullLog(ctx context.Context, t *testing.T, cfg fleetConfig, seed uint64, v *verdicts) {
	w := small(ctx, t, cfg, seed, v, topology.Limits{LogBytes: 1_500_000})
	said := func() bool {
		for _, s := range w.services {
			// New tasks are refused before the log is full, so that what runs has room to end.
			if b, err := os.ReadFile(w.log(s)); err == nil && (strings.Contains(string(b), kernel.ErrFull.Error()) || strings.Contains(string(b), quota.CodeFull)) {
				return true
			}
		}
		return false
	}
	w.fault("full log", func() {
		wait, stop := context.WithTimeout(ctx, time.Minute)
		defer stop()
		if !until(wait, said) {
			v.violate("SAFE-14: the log was filled to its limit and no service said so within a minute")
		}
		w.rest(time.Second, 2*time.Second)
		setUp(ctx, t, w.fleet, topology.Limits{LogBytes: 500_000_000})
	})
	w.flows("the log was given room")
	known, lost := w.finish("full log")
	v.row("full logs, events acknowledged as stored, lost", fmt.Sprintf("%d, %d, %d", w.counts["full log"], known, lost), "0 lost")
}
