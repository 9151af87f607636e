package docker_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/inspan/inspan/internal/egress"

	"github.com/inspan/inspan/internal/egress/inside"
	"github.com/inspan/inspan/internal/egress/policy"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/docker"
	"github.com/inspan/inspan/internal/sandbox/docker/within"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// TestMain lets the test program be the helper of the engine that is none.
func TestMain(m *testing.M) {
	if inside.Main() {
		return
	}
	if _, asked := within.Main(); asked {
		return
	}
	if base := os.Getenv(lostVariable); base != "" {
		toolrunner(base)
		return
	}
	m.Run()
}

// real is a backend of the engine that the variables name. Without an image nothing can be run, and the tests say so.
func real(testing.TB) *docker.Backend {
	cfg := docker.Config{Host: os.Getenv("INSPAN_TEST_DOCKER_HOST"), Image: os.Getenv("INSPAN_TEST_DOCKER_IMAGE"), Network: os.Getenv("INSPAN_TEST_DOCKER_NETWORK"),
		Helper: os.Getenv("INSPAN_TEST_DOCKER_HELPER")}
	if cfg.Image == "" {
		cfg.Image = "set-INSPAN_TEST_DOCKER_IMAGE"
	}
	if os.Getuid() == 0 {
		cfg.User = "0:0"
	}
	return docker.New(cfg)
}

func TestExam(t *testing.T) { sandboxtest.Exam(t, real(t)) }

func BenchmarkCosts(b *testing.B) { sandboxtest.Costs(b, real(b)) }

func TestEscape(t *testing.T) { sandboxtest.Escape(t, real(t)) }

func TestSwap(t *testing.T) { sandboxtest.Swap(t, real(t)) }

// lostVariable makes the test program a toolrunner that opens a sandbox below that directory and is lost in the middle.
const lostVariable = "INSPAN_TEST_LOST_IN_DOCKER"

// toolrunner runs a command until it is killed.
func toolrunner(base string) {
	sb, err := real(nil).Open(context.Background(), sandbox.Config{ID: "lost", Workspace: base})
	if err != nil {
		panic(err)
	}
	_, err = sb.Exec(context.Background(), sandbox.Cmd{Args: []string{"sh", "-c", "exec 9>leash; echo ready; (env -i setsid sleep 6000 &); sleep 6000"}, Stdout: os.Stdout})
	panic(fmt.Sprint("not killed: ", err))
}

func TestLostToolrunner(t *testing.T) {
	t.Parallel()
	b := real(t)
	sandboxtest.Need(t, b)
	ws := t.TempDir()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), lostVariable+"="+ws, "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	must(t, err)
	leash := leashed(t, ws)
	must(t, cmd.Start())
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if !leash() {
		t.Fatal("the command is not on the leash: the test would prove nothing")
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	t.Run("SBX-17 what runs in a container ends with its toolrunner, and the container goes", func(t *testing.T) {
		await(t, "all processes are gone", func() bool { return !leash() })
		_, err := b.Reap(t.Context())
		must(t, err)
	})
}

// TestDoor asks through the one way out of a container whose network is closed.
func TestDoor(t *testing.T) {
	t.Parallel()
	b := real(t)
	sandboxtest.Need(t, b)
	var asked atomic.Int64
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, "the site")
	}))
	defer site.Close()
	at := strings.TrimPrefix(site.URL, "http://")
	const addr = "site.example"
	var dialer net.Dialer
	proxy, err := egress.New(egress.Config{
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
		},
		Dial: func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", at)
		},
	})
	must(t, err)
	list, err := policy.ParseList([]string{addr})
	must(t, err)
	egress, err := proxy.Open(egress.Grant{Allow: list})
	must(t, err)
	defer egress.Close()
	sb := open(t, b, func(c *sandbox.Config) { c.Egress, c.Env = egress, egress.Env() })
	get := func(host string) string {
		var out bytes.Buffer
		script := fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/%d; printf 'GET http://%s/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' >&3; cat <&3`, inside.Port, host, host)
		_, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"bash", "-c", script}, Stdout: &out, Stderr: &out})
		must(t, err)
		return out.String()
	}
	t.Run("SBX-13 what is allowed is reached through the door", func(t *testing.T) {
		for range 2 { // one door for all commands of a container
			if got := get(addr); !strings.Contains(got, "the site") {
				t.Errorf("got %q", got)
			}
		}
	})
	if n := asked.Load(); n != 2 {
		t.Errorf("the site was asked %d times, want 2", n)
	}
	t.Run("SBX-13 nothing else is", func(t *testing.T) {
		if got := get("other.example"); strings.Contains(got, "the site") || !strings.Contains(got, " 403 ") {
			t.Errorf("got %q", got)
		}
		if out, exit, err := sh(t, sb, `bash -c "exec 3<>/dev/tcp/`+strings.Replace(at, ":", "/", 1)+`"`); err != nil || exit.Code == 0 {
			t.Errorf("past the door: got %q, %+v, %v", out, exit, err)
		}
	})
}
