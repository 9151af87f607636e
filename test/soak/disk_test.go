//go:build slow

package soak

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/test/robust/report"
)

// diskSize is that of the disk that is filled, leftAtFirst what a stranger leaves of it: a little more than the
// reserve.
const (
	diskSize    = "256m"
	leftAtFirst = 68 << 20
)

// fullDisk fills the disk of a server from outside: first up to the reserve, where new runs are refused and runs under
// way still end, then wholly, where after room was made and the server was started again everything goes on.
func fullDisk(ctx context.Context, t *testing.T, p *report.Part) {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.CommandContext(ctx, "mount", "-t", "tmpfs", "-o", "size="+diskSize, "tmpfs", dir).CombinedOutput(); err != nil {
		p.Untried = append(p.Untried, "a full disk: only root can mount a small one: "+string(out))
		return
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() }) // the folder goes with the test anyway
	y := &yard{t: t, ctx: ctx, dir: dir, gates: make([]atomic.Pointer[string], 3)}
	y.near = y.onDisk()
	y.user, y.st = y.connect()
	y.setUp()
	y.serve()
	y.park(3, time.Minute)
	letters := make(chan kernel.DeadLetter, 1024) // more than is provoked
	stop, err := y.st.WatchSubject(events.DeadSubject(name, events.Planner), func(_ string, b []byte) {
		var d kernel.DeadLetter
		if json.Unmarshal(b, &d) == nil {
			letters <- d
		}
	})
	y.must(err)

	ballast := filepath.Join(dir, "ballast")
	y.fill(ballast, leftAtFirst)
	p.Add("a disk filled up to the reserve: a new task meets with", y.firstRefusal(letters), "station_full")
	p.Add("  and a run under way, answered then, is", y.approve(0), "completed")

	y.fill(ballast, 0)
	told := false
	for i := 0; i < 100 && !told; i++ {
		told = y.st.Publish(ctx, events.TaskSubject(name), make([]byte, 100<<10), nil) != nil
	}
	p.Add("a disk without any room: whoever publishes", map[bool]string{true: "gets an error", false: "hears nothing"}[told], "gets an error")

	stop()
	y.must(os.Remove(ballast))
	y.roles.stop()
	y.user.Close()
	y.near.Shutdown()
	y.near = y.onDisk()
	y.user, y.st = y.connect()
	y.serve()
	after := y.approve(1)
	p.Add("  with room again and the server started again, an answered run is", after, "completed")
	logs := "whole"
	for i := range 3 {
		if _, err := y.fold(runID(i)); err != nil {
			logs = err.Error()
		}
	}
	p.Add("  and the logs of all runs are", logs, "whole")
	y.roles.stop()
	y.user.Close()
	y.near.Shutdown()
	for _, r := range p.Rows[len(p.Rows)-5:] {
		if r.Saw != r.Want {
			p.Violate("SAFE-14: %s: %s, want %s", r.What, r.Saw, r.Want)
		}
	}
}

// onDisk starts a server in this process on the yard's folder. Its own limit is far above the disk's size.
func (y *yard) onDisk() *natsserver.Server {
	y.t.Helper()
	s, err := natsserver.Start(natsserver.Config{Name: name, StoreDir: filepath.Join(y.dir, "nats"), MaxStore: 1 << 40})
	y.must(err)
	return s
}

// fill writes a file until no more than so many bytes are left on the disk.
func (y *yard) fill(path string, left int64) {
	y.t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	y.must(err)
	defer f.Close()
	const total = 256 << 20
	chunk := make([]byte, 64<<10)
	for {
		if left > 0 {
			i, err := f.Stat()
			y.must(err)
			if i.Size() >= total-left-y.filesBeside(path) {
				return
			}
		}
		if _, err := f.Write(chunk); err != nil {
			return // full
		}
	}
}

// filesBeside is what other files take.
func (y *yard) filesBeside(path string) (sum int64) {
	_ = filepath.WalkDir(y.dir, func(p string, d os.DirEntry, err error) error { // what is gone meanwhile takes nothing
		if err == nil && !d.IsDir() && p != path {
			if i, err := d.Info(); err == nil {
				sum += i.Size()
			}
		}
		return nil
	})
	return sum
}

// firstRefusal gives tasks until one is refused, and returns the code.
func (y *yard) firstRefusal(letters <-chan kernel.DeadLetter) string {
	y.t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for range 100 {
		y.must(y.st.Publish(y.ctx, events.TaskSubject(name), []byte(`{"agent":"parker","task":"more"}`), nil))
		select {
		case d := <-letters:
			return d.Code
		case <-tick.C:
		case <-y.ctx.Done():
		}
	}
	return "no refusal"
}

// approve answers the gate of a run and returns how it ended.
func (y *yard) approve(i int) string {
	y.t.Helper()
	y.must(y.st.Publish(y.ctx, events.GateSubject(name, runID(i), *y.gates[i].Load()), []byte(`{"decision":"approve"}`), nil))
	status := ""
	y.until(time.Minute, "the answered run ended", func() bool {
		s, err := y.fold(runID(i))
		status = string(s.Status)
		return err == nil && s.Status.Ended()
	})
	return status
}
