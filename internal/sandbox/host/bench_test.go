package host_test

import (
	"context"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/host"
)

// BenchmarkExec compares PERF-4: a command through the host sandbox against the same through os/exec.
func BenchmarkExec(b *testing.B) {
	dir := b.TempDir()
	b.Run("plain", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			cmd := exec.CommandContext(b.Context(), "/bin/true")
			cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &nowhere{}, &nowhere{}
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("host", func(b *testing.B) {
		sb, err := host.New("").Open(b.Context(), sandbox.Config{ID: "bench", Workspace: dir, Network: true})
		if err != nil {
			b.Fatal(err)
		}
		defer func() {
			if err := sb.Destroy(context.WithoutCancel(b.Context())); err != nil {
				b.Fatal(err)
			}
		}()
		b.ReportAllocs()
		for b.Loop() {
			cmd := sandbox.Cmd{Args: []string{"/bin/true"}, Stdout: &nowhere{}, Stderr: &nowhere{}}
			if exit, err := sb.Exec(b.Context(), cmd); err != nil || exit.Code != 0 {
				b.Fatal(exit, err)
			}
		}
	})
}

// BenchmarkPaired runs one of each in turn, so that both see the same machine, and tells how many times as long the
// host sandbox takes.
func BenchmarkPaired(b *testing.B) {
	dir := b.TempDir()
	sb, err := host.New("").Open(b.Context(), sandbox.Config{ID: "bench", Workspace: dir, Network: true})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := sb.Destroy(context.WithoutCancel(b.Context())); err != nil {
			b.Fatal(err)
		}
	}()
	var plain, boxed []time.Duration
	for b.Loop() {
		begin := time.Now()
		cmd := exec.CommandContext(b.Context(), "/bin/true")
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &nowhere{}, &nowhere{}
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		plain = append(plain, time.Since(begin))
		begin = time.Now()
		if exit, err := sb.Exec(b.Context(), sandbox.Cmd{Args: []string{"/bin/true"}, Stdout: &nowhere{}, Stderr: &nowhere{}}); err != nil || exit.Code != 0 {
			b.Fatal(exit, err)
		}
		boxed = append(boxed, time.Since(begin))
	}
	slices.Sort(plain)
	slices.Sort(boxed)
	b.ReportMetric(float64(boxed[len(boxed)/2])/float64(plain[len(plain)/2]), "times-plain")
}

// nowhere is a writer that is not io.Discard, so that both sides need their pipes. Its field gives each its own
// address.
type nowhere struct{ n int }

func (w *nowhere) Write(p []byte) (int, error) {
	w.n += len(p)
	return len(p), nil
}
