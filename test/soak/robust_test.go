//go:build slow

package soak

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/inspan/inspan/test/robust/report"
)

// How the part is scaled.
const (
	// sizeVar is the environment variable with the number of runs to park.
	sizeVar     = "INSPAN_SOAK_RUNS"
	defaultSize = 100_000
	answers     = 10_000
	// synced is how many gates are answered while the server syncs before it acknowledges: the disk sets that pace.
	synced = 300
	// parkWithin bounds how long runs are parked where no number is asked for: on a slow machine fewer are, and the
	// report says how many.
	parkWithin = 90 * time.Second
	// fewAnswers is the number of answers in that time.
	fewAnswers = 4_000
)

// The promises that the figures are held against.
const (
	maxRestart    = 30 * time.Second
	maxPerRun     = 32 << 10 // bytes on disk
	maxServerMiB  = 2048
	maxHeapMiB    = 512
	maxGoroutines = 200 // more than before, whatever is parked
)

// size returns how many runs to park, within what time, and how many gates to answer.
func size(t *testing.T) (runs int, within time.Duration, gates int) {
	text := os.Getenv(sizeVar)
	if text == "" {
		return defaultSize, parkWithin, fewAnswers
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 10 {
		t.Fatalf("%s is %q, want a number of runs from 10", sizeVar, text)
	}
	return n, time.Hour, answers
}

func TestRobust(t *testing.T) {
	most, within, gates := size(t)
	ctx, cancel := context.WithTimeout(context.Background(), within+20*time.Minute)
	defer cancel()
	p := report.Part{Name: "soak", Title: "many runs parked at gates, a crash, a storm of answers"}
	defer func() {
		if t.Failed() {
			p.Violate("the part did not come to its end; its log says why")
		}
		for _, r := range p.Rows {
			t.Logf("%-60s %-28s %s", r.What, r.Saw, r.Want)
		}
		if err := p.Save(); err != nil {
			t.Error(err)
		}
		for _, v := range p.Violations {
			t.Error(v)
		}
	}()
	y := newYard(ctx, t, true, most)
	y.serve()
	before := y.look()
	took := y.park(most, within)
	p.Add("runs parked, each dispatched as a task and stopped by the gatekeeper", y.parked, fmt.Sprint(most))
	p.Add("time to park them (the server syncs lazily meanwhile)", fmt.Sprintf("%s, %.0f runs/s", seconds(took), float64(y.parked)/took.Seconds()), "")
	if y.parked < most {
		p.Untried = append(p.Untried, fmt.Sprintf("this machine parked %d of %d runs in %s; %s=%d takes the time that it takes", y.parked, most, within, sizeVar, most))
	}
	idle := time.Now()
	y.until(2*time.Minute, "the services are idle", func() bool { return y.look().goroutines <= before.goroutines+maxGoroutines })
	p.Add("time until the views are written behind that", seconds(time.Since(idle)), "")
	parkedFigures(&p, before, y.look(), y.parked)

	y.crash(&p, true)
	y.rollServices(&p)
	y.storm(&p, "the server syncs lazily", min(gates, y.parked/2))
	y.crash(&p, false)
	y.storm(&p, "the server syncs before it acknowledges", min(synced, y.parked/4))
	fullDisk(ctx, t, &p)
}

// parkedFigures tells what the parked runs cost.
func parkedFigures(p *report.Part, before, after figures, parked int) {
	p.Add("goroutines of the services, before and with all parked", fmt.Sprintf("%d, %d", before.goroutines, after.goroutines), "none per run")
	p.Add("goroutines of the server, before and with all parked", fmt.Sprintf("%d, %d", before.serverGoroutines, after.serverGoroutines), "none per run")
	p.Add("heap of the services, before and with all parked", fmt.Sprintf("%.0f MiB, %.0f MiB", before.heap, after.heap), fmt.Sprintf("below %d MiB", maxHeapMiB))
	perRun := (after.disk - before.disk) / int64(parked)
	p.Add("disk of the server per parked run", fmt.Sprintf("%.1f KiB", float64(perRun)/1024), fmt.Sprintf("below %d KiB", maxPerRun>>10))
	if after.rss == 0 {
		p.Untried = append(p.Untried, "the memory of the server: this machine has no /proc")
	} else {
		p.Add("resident memory of the server, before and with all parked", fmt.Sprintf("%.0f MiB, %.0f MiB", before.rss, after.rss), fmt.Sprintf("below %d MiB", maxServerMiB))
	}
	if after.goroutines > before.goroutines+maxGoroutines || after.serverGoroutines > before.serverGoroutines+maxGoroutines {
		p.Violate("GATE-12: parked runs hold goroutines: services %d to %d, server %d to %d", before.goroutines, after.goroutines, before.serverGoroutines, after.serverGoroutines)
	}
	if after.heap > maxHeapMiB || after.rss > maxServerMiB || perRun > maxPerRun {
		p.Violate("%d parked runs take %.0f MiB of heap, %.0f MiB of the server, %d bytes of disk each", parked, after.heap, after.rss, perRun)
	}
}

// crash kills the server and starts it again, and measures until an answer of a person is recorded.
func (y *yard) crash(p *report.Part, lazy bool) {
	y.t.Helper()
	y.roles.stop()
	y.user.Close()
	y.server.kill()
	began := time.Now()
	y.boot(lazy)
	served := time.Since(began)
	began = time.Now()
	y.serve()
	y.answer(1)
	p.Add("server after kill -9, until it serves clients", seconds(served), "below "+seconds(maxRestart))
	p.Add("all services after that, until a first answer is recorded", seconds(time.Since(began)), "below "+seconds(maxRestart))
	if served > maxRestart || time.Since(began) > maxRestart {
		p.Violate("after a crash the server took %s and the services %s", served, time.Since(began))
	}
}

// rollServices stops all services and starts them on the running server.
func (y *yard) rollServices(p *report.Part) {
	began := time.Now()
	y.roles.stop()
	stopped := time.Since(began)
	began = time.Now()
	y.serve()
	y.answer(1)
	took := time.Since(began)
	p.Add("all services stopped in order, started, first answer recorded", seconds(stopped)+", "+seconds(took), "below "+seconds(maxRestart))
	if took > maxRestart {
		p.Violate("services restarted in %s", took)
	}
}

// storm answers n gates at once, each twice.
func (y *yard) storm(p *report.Part, server string, n int) {
	y.t.Helper()
	s := y.answer(n)
	settled := y.settle()
	faults := y.wrong()
	p.Add("gates answered at once, each with yes and no by two people: "+server, s.gates, "")
	p.Add("all answers recorded or refused within", fmt.Sprintf("%s, %.0f answers/s", seconds(s.took), float64(2*s.gates)/s.took.Seconds()), "")
	p.Add("an answer recorded after it was sent, median and p99", seconds(s.p50)+", "+seconds(s.p99), "")
	p.Add("second answers refused", s.refused, fmt.Sprint(s.gates))
	p.Add("all answered runs at their end, after that", seconds(settled), "")
	p.Add("runs whose log shows anything but one answer and what follows", len(faults), "0")
	if len(faults) > 0 || s.refused != s.gates {
		p.Violate("GATE-8: %d gates, %d answers refused, %d runs wrong: %.10v", s.gates, s.refused, len(faults), faults)
	}
}
