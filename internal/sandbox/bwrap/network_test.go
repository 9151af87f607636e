package bwrap_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// shared is bubblewrap whose sandboxes have one closed network for all their commands.
type shared struct{ *bwrap.Backend }

func (s shared) Open(ctx context.Context, cfg sandbox.Config) (sandbox.Sandbox, error) {
	cfg.Lasting, cfg.Network = true, false
	return s.Backend.Open(ctx, cfg)
}

// TestExamShared and TestEscapeShared are the exam and the escape list of sandboxes whose commands share a closed
// network.
func TestExamShared(t *testing.T) { sandboxtest.Exam(t, shared{bwrap.New("", "")}) }

func TestEscapeShared(t *testing.T) { sandboxtest.Escape(t, shared{bwrap.New("", "")}) }

// server listens on a port, says which, and answers with its argument until it is ended.
const server = `perl -MIO::Socket::INET -e '$|=1; $s=IO::Socket::INET->new(Listen=>5,LocalAddr=>"127.0.0.1",LocalPort=>0) or die; print $s->sockport,"\n"; while($c=$s->accept){print $c "hello\n"; close $c}'`

// client reads what a port of this machine answers.
func client(port string) string {
	return `perl -MIO::Socket::INET -e '$s=IO::Socket::INET->new(PeerAddr=>"127.0.0.1",PeerPort=>` + port + `) or print("refused"),exit; print <$s>'`
}

// told is a writer that passes on the first line.
type told struct {
	buf  bytes.Buffer
	line chan string
}

func (t *told) Write(p []byte) (int, error) {
	had := strings.Contains(t.buf.String(), "\n")
	t.buf.Write(p)
	if line, _, ok := strings.Cut(t.buf.String(), "\n"); ok && !had {
		t.line <- line
	}
	return len(p), nil
}

// serve starts a server in a sandbox and returns its port.
func serve(t *testing.T, sb sandbox.Sandbox) string {
	t.Helper()
	out := &told{line: make(chan string, 1)} // one line
	p, err := sb.Start(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", server}, Stdout: out})
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1) // one result
	go func() {
		_, err := p.Wait()
		gone <- err
	}()
	select {
	case port := <-out.line:
		return port
	case err := <-gone:
		t.Fatalf("the server ended: %v", err)
		return ""
	}
}

func TestSharedNetwork(t *testing.T) {
	t.Parallel()
	backend := bwrap.New("", "")
	sandboxtest.Need(t, backend)
	opened := func(t *testing.T, cfg sandbox.Config) cell {
		cfg.ID, cfg.Workspace = "shared", t.TempDir()
		sb, err := backend.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := sb.Destroy(context.Background()); err != nil {
				t.Error(err)
			}
		})
		return cell{sandbox: sb}
	}
	t.Run("SBX-2 SBX-13 a command reaches what another of its sandbox listens on, and no one else does", func(t *testing.T) {
		t.Parallel()
		one, other, alone := opened(t, sandbox.Config{Lasting: true}), opened(t, sandbox.Config{Lasting: true}), opened(t, sandbox.Config{})
		port := serve(t, one.sandbox)
		for name, c := range map[string]struct {
			in   cell
			want string
		}{"the same sandbox": {one, "hello\n"}, "another": {other, "refused"}, "one of a single call": {alone, "refused"}} {
			if out, _ := c.in.sh(t, client(port)); out != c.want {
				t.Errorf("%s: got %q, want %q", name, out, c.want)
			}
		}
		if out, _ := alone.sh(t, "echo "+serve(t, alone.sandbox)); out == "" {
			t.Error("there is no port")
		}
	})
	t.Run("SBX-13 SBX-14 a command gets no handle on the network, has no route out of it, and can make none", func(t *testing.T) {
		t.Parallel()
		sb := opened(t, sandbox.Config{Lasting: true})
		out, _ := sb.sh(t, `readlink /proc/self/fd/* | grep -E '^(net|user):'; tail -n +2 /proc/net/route; cut -d: -f1 -s /proc/net/dev | tr -d ' \n'; grep CapEff /proc/self/status; cat /proc/self/uid_map | wc -l`)
		if out != "loCapEff:\t0000000000000000\n1\n" {
			t.Errorf("got %q", out)
		}
		if out, code := sb.sh(t, "unshare -U true || ip link add x type dummy || nsenter --net=/proc/1/ns/net true"); code == 0 {
			t.Errorf("got %q", out)
		}
	})
	t.Run("SBX-15 with the sandbox the network goes", func(t *testing.T) {
		t.Parallel()
		held := func() int {
			n := 0
			dir, err := os.ReadDir("/proc/self/fd")
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range dir {
				if to, err := os.Readlink(filepath.Join("/proc/self/fd", f.Name())); err == nil && strings.HasPrefix(to, "net:[") {
					n++
				}
			}
			return n
		}
		sb, err := backend.Open(t.Context(), sandbox.Config{ID: "goes", Workspace: t.TempDir(), Lasting: true})
		if err != nil {
			t.Fatal(err)
		}
		link := func() string { return numberOfNet(t, sb) }
		first, second := link(), link()
		if first != second || first == "" {
			t.Errorf("its commands have the networks %q and %q", first, second)
		}
		if held() == 0 {
			t.Error("nothing holds it")
		}
		for range 2 {
			if err := sb.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
		}
		dir, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range dir {
			if to, err := os.Readlink(filepath.Join("/proc/self/fd", f.Name())); err == nil && to == first {
				t.Errorf("%s is still held", to)
			}
		}
	})
}

// numberOfNet is the name of the network of a command.
func numberOfNet(t *testing.T, sb sandbox.Sandbox) string {
	t.Helper()
	var out bytes.Buffer
	if _, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"readlink", "/proc/self/ns/net"}, Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}
