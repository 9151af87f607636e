package backends_test

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/gvisor"
	"github.com/inspan/inspan/internal/sandbox/host"
	"github.com/inspan/inspan/internal/sandbox/landlock"
	"github.com/inspan/inspan/internal/sandbox/launch"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// TestMain lets the test program be the launcher of landlock.
func TestMain(m *testing.M) {
	if launch.Asked(os.Args) {
		launch.Main() // which becomes the command
		return
	}
	m.Run()
}

func all() []sandbox.Backend {
	return []sandbox.Backend{host.New(""), bwrap.New("", ""), landlock.New([]string{"/proc/self/exe", launch.Word}, ""),
		gvisor.New(gvisor.Config{Program: os.Getenv("INSPAN_GVISOR")})}
}

// BenchmarkPlain is what the others are compared with: the same command through os/exec.
func BenchmarkPlain(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), "/bin/true")
		cmd.Dir = dir
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCold opens a sandbox, runs one command and destroys the sandbox.
func BenchmarkCold(b *testing.B) {
	for _, backend := range all() {
		b.Run(string(backend.Mode()), func(b *testing.B) {
			sandboxtest.Need(b, backend)
			dir := b.TempDir()
			for b.Loop() {
				once(b, backend, dir)
			}
		})
	}
}

// BenchmarkWarm runs one command in a sandbox that is there.
func BenchmarkWarm(b *testing.B) {
	for _, backend := range all() {
		b.Run(string(backend.Mode()), func(b *testing.B) {
			sandboxtest.Need(b, backend)
			box, err := backend.Open(b.Context(), sandbox.Config{ID: "bench", Workspace: b.TempDir(), Network: true})
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := box.Destroy(context.WithoutCancel(b.Context())); err != nil {
					b.Fatal(err)
				}
			}()
			for b.Loop() {
				if exit, err := box.Exec(b.Context(), sandbox.Cmd{Args: []string{"/bin/true"}}); err != nil || exit.Code != 0 {
					b.Fatal(exit, err)
				}
			}
		})
	}
}

// Benchmark64 opens 64 sandboxes at once, with a command in each, and destroys them.
func Benchmark64(b *testing.B) {
	for _, backend := range all() {
		b.Run(string(backend.Mode()), func(b *testing.B) {
			sandboxtest.Need(b, backend)
			for b.Loop() {
				var running sync.WaitGroup
				for range 64 {
					dir := b.TempDir()
					running.Go(func() { once(b, backend, dir) })
				}
				running.Wait()
			}
		})
	}
}

// once is the whole life of one sandbox.
func once(b *testing.B, backend sandbox.Backend, dir string) {
	box, err := backend.Open(b.Context(), sandbox.Config{ID: "bench", Workspace: dir, Network: true})
	if err != nil {
		b.Error(err)
		return
	}
	exit, err := box.Exec(b.Context(), sandbox.Cmd{Args: []string{"/bin/true"}})
	if err != nil || exit.Code != 0 {
		b.Error(exit, err)
	}
	if err := box.Destroy(context.WithoutCancel(b.Context())); err != nil {
		b.Error(err)
	}
}
