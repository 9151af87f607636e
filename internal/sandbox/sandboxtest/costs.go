package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
)

// Together is how many sandboxes Costs has at a time.
const Together = 64

// Costs measures what a backend costs on this machine, in turns with the same command without any, so that all see the
// same machine: a sandbox from its begin to the end of its first command (cold), a command in one that is there (warm),
// the end of a sandbox (end), each as the median in milliseconds and as how many times a bare command takes, and the
// processor time of a command, as its backend counts it. Then it has Together sandboxes at a time, with a command in
// each, and tells how many failed and what memory each took, as its backend counts it.
func Costs(b *testing.B, backend sandbox.Backend) { CostsOf(b, backend, Together) }

// CostsOf is Costs with another number of sandboxes at a time, for those of which a computer cannot have as many.
func CostsOf(b *testing.B, backend sandbox.Backend, crowd int) {
	Need(b, backend)
	dir := b.TempDir()
	sb, err := backend.Open(b.Context(), sandbox.Config{ID: "warm", Workspace: dir, Network: true})
	needed(b, err)
	defer func() { needed(b, sb.Destroy(context.Background())) }()
	_, err = idle(b.Context(), sb) // some start something with their first command
	needed(b, err)
	var bare, cold, warm, end []time.Duration
	var plainUsed, used time.Duration
	for b.Loop() {
		begin := time.Now()
		alone := exec.CommandContext(b.Context(), "/bin/true")
		needed(b, alone.Run())
		bare = append(bare, time.Since(begin))
		plainUsed += alone.ProcessState.UserTime() + alone.ProcessState.SystemTime()
		begin = time.Now()
		other, err := backend.Open(b.Context(), sandbox.Config{ID: "cold", Workspace: dir, Network: true})
		needed(b, err)
		_, err = idle(b.Context(), other)
		needed(b, err)
		cold = append(cold, time.Since(begin))
		begin = time.Now()
		needed(b, other.Destroy(context.Background()))
		end = append(end, time.Since(begin))
		begin = time.Now()
		took, err := idle(b.Context(), sb)
		needed(b, err)
		warm = append(warm, time.Since(begin))
		used += took
	}
	b.ReportMetric(plainUsed.Seconds()*1000/float64(len(bare)), "bare-cpu-ms")
	b.ReportMetric(used.Seconds()*1000/float64(len(warm)), "warm-cpu-ms")
	plain := median(bare)
	b.ReportMetric(plain, "bare-ms")
	for name, list := range map[string][]time.Duration{"cold": cold, "warm": warm, "end": end} {
		b.ReportMetric(median(list), name+"-ms")
		b.ReportMetric(median(list)/plain, name+"-times")
	}
	begin := time.Now()
	failed, memory := together(b, backend, crowd)
	b.ReportMetric(time.Since(begin).Seconds(), "together-s")
	b.ReportMetric(float64(failed), "together-failed")
	b.ReportMetric(float64(crowd), "together")
	b.ReportMetric(float64(memory)/(1<<20), "together-MiB-each")
}

// needed ends a measurement that has failed.
func needed(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// median of a series, in milliseconds.
func median(list []time.Duration) float64 {
	slices.Sort(list)
	return float64(list[len(list)/2]) / float64(time.Millisecond)
}

// idle runs a command that does nothing, and tells what processor time that took.
func idle(ctx context.Context, sb sandbox.Sandbox) (time.Duration, error) {
	exit, err := sb.Exec(ctx, sandbox.Cmd{Args: []string{"/bin/true"}})
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("true ended with status %d", exit.Code)
	}
	return exit.User + exit.System, err
}

// together has a crowd of sandboxes at a time: none ends before all run.
func together(b *testing.B, backend sandbox.Backend, crowd int) (failed int, memory int64) {
	ctx, cancel := context.WithTimeout(b.Context(), 3*patience)
	defer cancel()
	errs, used := make([]error, crowd), make([]int64, crowd)
	var arrived, running sync.WaitGroup
	all := make(chan struct{})
	for i := range crowd {
		dir := b.TempDir()
		arrived.Add(1)
		running.Go(func() { errs[i], used[i] = crowded(ctx, backend, dir, sync.OnceFunc(arrived.Done), all) })
	}
	arrived.Wait()
	close(all)
	running.Wait()
	for _, err := range errs {
		if err != nil {
			failed++
			b.Errorf("one of %d sandboxes at a time: %v", crowd, err)
		}
	}
	slices.Sort(used)
	return failed, used[crowd/2]
}

// crowded is the life of one sandbox among many: it says when its command runs, which ends when all others run.
func crowded(ctx context.Context, backend sandbox.Backend, dir string, here func(), all <-chan struct{}) (err error,
	used int64) {
	defer here() // also where it never runs
	sb, err := backend.Open(ctx, sandbox.Config{ID: "one of many", Workspace: dir, Network: true})
	if err != nil {
		return err, 0
	}
	defer func() { err = errors.Join(err, sb.Destroy(context.Background())) }()
	ready := listener("ready")
	var running sync.WaitGroup
	defer running.Wait()
	ctx, over := context.WithCancel(ctx)
	defer over()
	running.Go(func() {
		select {
		case <-ready.received:
			here()
		case <-ctx.Done():
		}
	})
	exit, err := sb.Exec(ctx, sandbox.Cmd{Args: []string{"sh", "-c", "echo ready; read x; exit 7"},
		Stdin: &gate{open: all, ctx: ctx}, Stdout: ready})
	if err == nil && exit.Code != 7 {
		err = fmt.Errorf("the command ended with status %d: %q", exit.Code, ready.String())
	}
	return err, exit.MaxRSS
}

// gate is an input that has one line once it is open, and nothing when the command is over.
type gate struct {
	open <-chan struct{}
	ctx  context.Context
	read bool
}

func (g *gate) Read(p []byte) (int, error) {
	if g.read || len(p) == 0 {
		return 0, io.EOF
	}
	select {
	case <-g.open:
		g.read = true
		return copy(p, "\n"), nil
	case <-g.ctx.Done():
		return 0, io.EOF
	}
}
