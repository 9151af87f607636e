package host_test

import (
	"context"
	"os/exec"
	"testing"

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
		box, err := host.New("").Open(b.Context(), sandbox.Config{ID: "bench", Workspace: dir, Network: true})
		if err != nil {
			b.Fatal(err)
		}
		defer func() {
			if err := box.Destroy(context.WithoutCancel(b.Context())); err != nil {
				b.Fatal(err)
			}
		}()
		b.ReportAllocs()
		for b.Loop() {
			cmd := sandbox.Cmd{Args: []string{"/bin/true"}, Stdout: &nowhere{}, Stderr: &nowhere{}}
			if exit, err := box.Exec(b.Context(), cmd); err != nil || exit.Code != 0 {
				b.Fatal(exit, err)
			}
		}
	})
}

// nowhere is a writer that is not io.Discard, so that both sides need their pipes. Its field gives each its own address.
type nowhere struct{ n int }

func (w *nowhere) Write(p []byte) (int, error) {
	w.n += len(p)
	return len(p), nil
}
