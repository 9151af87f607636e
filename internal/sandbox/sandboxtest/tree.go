package sandboxtest

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
)

// leash is a named pipe in the workspace that a script opens for writing as descriptor 9. All it starts inherits it, so
// the pipe has a writer as long as one of them lives. Where commands run on another machine it is a file, and who has
// it open there is asked for.
type leash struct {
	fd   int
	seen func() bool
}

func newLeash(t *testing.T, b sandbox.Backend, p workdir) leash {
	t.Helper()
	path := filepath.Join(p.workspace, "leash")
	if away(b) {
		must(t, os.WriteFile(path, nil, 0o600))
		return leash{seen: farLeash(t, b, p)}
	}
	must(t, syscall.Mkfifo(path, 0o600))
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	return leash{fd: fd}
}

// alive reports whether any process still holds the pipe.
func (l leash) alive() bool {
	if l.seen != nil {
		return l.seen()
	}
	for {
		n, err := syscall.Read(l.fd, make([]byte, 64))
		switch {
		case errors.Is(err, syscall.EAGAIN):
			return true
		case errors.Is(err, syscall.EINTR) || n > 0:
		default:
			return false
		}
	}
}

// farLeash asks the sandbox itself whether a process there holds the leash, and another one of the backend where that
// is destroyed or has ended: on a machine that both share it sees what is left, and where each has one of its own
// nothing can be.
func farLeash(t *testing.T, b sandbox.Backend, p workdir) func() bool {
	t.Helper()
	file := p.inside() + "/leash"
	return func() bool {
		var out safe
		look := sandbox.Cmd{Args: []string{"sh", "-c",
			`ls -l /proc/[0-9]*/fd/9 2>/dev/null | grep -F -e " -> $1" || echo none`, "sh", file}, Stdout: &out}
		_, err := p.sandbox.Exec(within(t), look)
		if errors.Is(err, sandbox.ErrDestroyed) || errors.Is(err, sandbox.ErrLifetime) || errors.Is(err, sandbox.ErrDisk) {
			var other sandbox.Sandbox
			other, err = b.Open(t.Context(), sandbox.Config{ID: "watch", Workspace: t.TempDir(), Network: true})
			must(t, err)
			t.Cleanup(func() { must(t, other.Destroy(context.Background())) })
			_, err = other.Exec(within(t), look)
		}
		must(t, err)
		return out.String() != "none\n"
	}
}

// families are scripts that start something hard to end and then say ready. Each ends in a wait of its own.
var families = map[string]string{
	"child":                      `exec 9>leash; echo ready; sleep 600`,
	"background":                 `exec 9>leash; sleep 600 & sleep 600 & echo ready; wait`,
	"grandchild without parent":  `exec 9>leash; (sleep 600 &) ; echo ready; sleep 600`,
	"own session":                `exec 9>leash; setsid sleep 600 & echo ready; wait`,
	"daemon":                     `exec 9>leash; (setsid sh -c 'sleep 600 & sleep 600' >/dev/null 2>&1 </dev/null &) ; echo ready; sleep 600`,
	"daemon of a daemon":         `exec 9>leash; setsid sh -c 'setsid sh -c "setsid sleep 600 & sleep 600" & sleep 600' & echo ready; wait`,
	"deaf to polite signals":     `exec 9>leash; trap "" TERM INT HUP; (trap "" TERM INT HUP; sleep 600) & echo ready; wait`,
	"stopped":                    `exec 9>leash; sleep 600 & kill -STOP $!; echo ready; wait`,
	"without environment":        `exec 9>leash; env -i setsid sleep 600 & echo ready; wait`,
	"many":                       `exec 9>leash; for i in $(seq 60); do setsid sleep 600 & done; echo ready; wait`,
	"output held by a grandson":  `exec 9>leash; setsid sh -c 'while :; do echo x; sleep 0.01; done' & echo ready; wait`,
	"children that keep forking": `exec 9>leash; setsid sh -c 'while :; do sleep 0.01 & done' >/dev/null 2>&1 & echo ready; wait`,
}

func examTree(t *testing.T, b sandbox.Backend) {
	for name, script := range families {
		t.Run("TOOL-22 the end of the context ends: "+name, func(t *testing.T) {
			t.Parallel()
			wants(t, b, Processes)
			if name != "output held by a grandson" { // which holds the backend's own streams
				own(t, b)
			}
			endsWithContext(t, b, script)
		})
	}
	t.Run("a deadline is told as such", func(t *testing.T) {
		t.Parallel()
		p := open(t, b)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := p.sandbox.Exec(ctx, sandbox.Cmd{Args: []string{"sleep", "600"}})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want DeadlineExceeded", err)
		}
	})
	t.Run("a context that ended before starts nothing", func(t *testing.T) {
		t.Parallel()
		p := open(t, b)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := p.sandbox.Exec(ctx, sandbox.Cmd{Args: []string{"touch", "started"}})
		if _, statErr := os.Stat(filepath.Join(p.workspace, "started")); !errors.Is(err, context.Canceled) || statErr == nil {
			t.Errorf("got %v, started: %v", err, statErr == nil)
		}
	})
	for name, left := range map[string]string{
		"background": `sleep 600 &`,
		"session":    `setsid sleep 600 &`,
		"daemon":     `(setsid sleep 600 >/dev/null 2>&1 </dev/null &);`,
	} {
		t.Run("what is left in the background ends with its Exec: "+name, func(t *testing.T) {
			t.Parallel()
			wants(t, b, Processes)
			if name != "session" {
				own(t, b)
			}
			p := open(t, b)
			l := newLeash(t, b, p)
			out, _, exit := p.sh(t, "exec 9>leash; "+left+" echo done; exit 3")
			if out != "done\n" || exit.Code != 3 {
				t.Errorf("got %q, %+v", out, exit)
			}
			if l.alive() {
				t.Error("a process outlives its Exec")
			}
		})
	}
	t.Run("a reader of stdin that never returns does not hold Exec", func(t *testing.T) {
		t.Parallel()
		p := open(t, b)
		never, end := io.Pipe()
		defer func() { must(t, end.Close()) }()
		if _, err := p.sandbox.Exec(within(t), sandbox.Cmd{Args: []string{"true"}, Stdin: never}); err != nil {
			t.Error(err)
		}
	})
}

func endsWithContext(t *testing.T, b sandbox.Backend, script string) {
	p := open(t, b)
	l := newLeash(t, b, p)
	ready := listener("ready")
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := p.sandbox.Exec(ctx, sandbox.Cmd{Args: []string{"sh", "-c", script}, Stdout: ready, Stderr: ready})
		ended <- err
	}()
	select {
	case <-ready.received:
	case err := <-ended:
		t.Fatalf("ended by itself: %v; it said %q", err, ready.String())
	}
	if !l.alive() {
		t.Fatal("the family is not on the leash: the test would prove nothing")
	}
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want Canceled", err)
		}
	case <-within(t).Done():
		t.Fatal("Exec does not return")
	}
	if l.alive() {
		t.Error("a process outlives the end of its context")
	}
}

func examDestroy(t *testing.T, b sandbox.Backend) {
	t.Run("SBX-15 ends what runs and may be called twice", func(t *testing.T) {
		wants(t, b, Processes)
		p := open(t, b)
		l := newLeash(t, b, p)
		ready := listener("ready")
		ended := make(chan error, 1)
		go func() {
			_, err := p.sandbox.Exec(within(t), sandbox.Cmd{Args: []string{"sh", "-c", families["daemon"]}, Stdout: ready})
			ended <- err
		}()
		<-ready.received
		must(t, p.sandbox.Destroy(within(t)))
		if l.alive() {
			t.Error("a process outlives its sandbox")
		}
		if err := <-ended; !errors.Is(err, sandbox.ErrDestroyed) {
			t.Errorf("the running Exec: got %v, want ErrDestroyed", err)
		}
		must(t, p.sandbox.Destroy(within(t)))
	})
	t.Run("nothing works afterwards and the workspace stays", func(t *testing.T) {
		p := open(t, b)
		must(t, p.sandbox.WriteFile("kept", []byte("kept")))
		out, _, _ := p.sh(t, `echo x > "$TMPDIR/trace-$$"; echo "$TMPDIR/trace-$$"`)
		must(t, p.sandbox.Destroy(within(t)))
		if _, err := p.sandbox.Exec(within(t), sandbox.Cmd{Args: []string{"true"}}); !errors.Is(err, sandbox.ErrDestroyed) {
			t.Errorf("Exec: got %v, want ErrDestroyed", err)
		}
		if _, err := p.sandbox.ReadFile("kept"); !errors.Is(err, sandbox.ErrDestroyed) {
			t.Errorf("ReadFile: got %v, want ErrDestroyed", err)
		}
		if err := p.sandbox.WriteFile("new", nil); !errors.Is(err, sandbox.ErrDestroyed) {
			t.Errorf("WriteFile: got %v, want ErrDestroyed", err)
		}
		if data, err := os.ReadFile(filepath.Join(p.workspace, "kept")); err != nil || string(data) != "kept" {
			t.Errorf("workspace: got %q, %v", data, err)
		}
		if _, err := os.Stat(out[:len(out)-1]); err == nil {
			t.Errorf("%s is still there", out)
		}
	})
}
