package e2b_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/e2b"
	"github.com/inspan/inspan/internal/sandbox/e2b/e2btest"
	"github.com/inspan/inspan/internal/sandbox/mirror"
	"github.com/inspan/inspan/internal/secret"
)

func open(t testing.TB, b *e2b.Backend) sandbox.Sandbox {
	t.Helper()
	sb, err := b.Open(t.Context(), sandbox.Config{ID: "faults", Workspace: t.TempDir(), Network: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Destroy(context.Background()) }) // some tests end its machine
	return sb
}

func sh(t testing.TB, sb sandbox.Sandbox, script string, more ...string) (string, sandbox.Exit, error) {
	t.Helper()
	var out bytes.Buffer
	exit, err := sb.Exec(t.Context(), sandbox.Cmd{Args: append([]string{"sh", "-c", script, "sh"}, more...), Stdout: &out, Stderr: &out})
	return out.String(), exit, err
}

// soon is a context of a test that must not wait as long as the service says.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestOpenFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(s *e2btest.Server, cfg *e2b.Config)
		want  error
		says  string
	}{
		"no key":              {func(_ *e2btest.Server, cfg *e2b.Config) { cfg.Key = secret.Value{} }, e2b.ErrKey, "INSPAN_E2B_API_KEY"},
		"a wrong key":         {func(_ *e2btest.Server, cfg *e2b.Config) { cfg.Key = secret.New("e2b_wrong") }, e2b.ErrKey, "INSPAN_E2B_API_KEY"},
		"no template":         {func(_ *e2btest.Server, cfg *e2b.Config) { cfg.Template = "nope" }, e2b.ErrTemplate, "INSPAN_E2B_TEMPLATE"},
		"busy all the time":   {func(s *e2btest.Server, _ *e2b.Config) { s.Fail(e2btest.Faults{Refuse: []int{429, 429, 429, 429, 429}}) }, e2b.ErrBusy, "429"},
		"a fault of its own":  {func(s *e2btest.Server, _ *e2b.Config) { s.Fail(e2btest.Faults{Refuse: []int{500}}) }, e2b.ErrService, "500"},
		"a redirect":          {func(s *e2btest.Server, _ *e2b.Config) { s.Fail(e2btest.Faults{Refuse: []int{307}}) }, e2b.ErrService, "307"},
		"no one there":        {func(_ *e2btest.Server, cfg *e2b.Config) { cfg.URL = "http://127.0.0.1:1" }, e2b.ErrService, "127.0.0.1:1"},
		"sandboxes elsewhere": {func(_ *e2btest.Server, cfg *e2b.Config) { cfg.SandboxURL = "http://127.0.0.1:1" }, e2b.ErrService, "127.0.0.1:1"},
	} {
		t.Run("SBX-20 "+name+" is told with what to do, and no machine is left", func(t *testing.T) {
			t.Parallel()
			s := e2btest.New(t.TempDir())
			t.Cleanup(s.Close)
			cfg := config(s)
			c.spoil(s, &cfg)
			sb, err := e2b.New(cfg).Open(soon(t), sandbox.Config{ID: "faults", Workspace: t.TempDir()})
			if !errors.Is(err, c.want) || !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), c.says) || sb != nil {
				t.Errorf("got %v, want %v with %q", err, c.want, c.says)
			}
			if err != nil && (strings.Contains(err.Error(), e2btest.Key) || strings.Contains(err.Error(), "e2b_wrong")) {
				t.Errorf("the error shows the key: %v", err)
			}
			if left := s.Sandboxes(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			if s.Requests("POST /elsewhere") > 0 {
				t.Error("a redirect was followed with the key")
			}
		})
	}
	t.Run("SBX-5 a busy service is asked again, and waited for as long as it says", func(t *testing.T) {
		t.Parallel()
		s, b := cloud(t)
		s.Fail(e2btest.Faults{Refuse: []int{http.StatusTooManyRequests, http.StatusServiceUnavailable}, RetryAfter: 1})
		begin := time.Now()
		sb := open(t, b)
		if took := time.Since(begin); took < 2*time.Second {
			t.Errorf("waited %v, it was told to wait a second each time", took)
		}
		if out, _, err := sh(t, sb, "echo well"); err != nil || out != "well\n" {
			t.Errorf("got %q, %v", out, err)
		}
	})
	t.Run("SBX-17 a machine that was made and not told of is found and ended", func(t *testing.T) {
		t.Parallel()
		s, b := cloud(t)
		s.Fail(e2btest.Faults{LoseCreated: true})
		if _, err := b.Open(soon(t), sandbox.Config{ID: "faults", Workspace: t.TempDir()}); !errors.Is(err, e2b.ErrService) {
			t.Errorf("got %v, want ErrService", err)
		}
		if left, made := s.Sandboxes(), s.Requests("POST /sandboxes"); len(left) > 0 || made != 1 {
			t.Errorf("left %v of %d", left, made)
		}
	})
	t.Run("SBX-12 limits no smaller than the template are kept by it, smaller ones refused with both numbers", func(t *testing.T) {
		t.Parallel()
		s, b := cloud(t)
		fits := sandbox.Limits{CPU: e2btest.CPUs, Memory: e2btest.MemoryMB << 20, Disk: e2btest.DiskMB << 20}
		sb, err := b.Open(t.Context(), sandbox.Config{ID: "faults", Workspace: t.TempDir(), Limits: fits})
		if err != nil {
			t.Fatal(err)
		}
		if err := sb.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
		for isolation, l := range map[sandbox.Isolation]sandbox.Limits{sandbox.LimitCPU: {CPU: e2btest.CPUs - 0.1}, sandbox.LimitMemory: {Memory: e2btest.MemoryMB<<20 - 1}, sandbox.LimitDisk: {Disk: e2btest.DiskMB<<20 - 1}} {
			_, err := b.Open(t.Context(), sandbox.Config{ID: "faults", Workspace: t.TempDir(), Limits: l})
			if !errors.Is(err, sandbox.ErrNotEnforced) || !strings.Contains(err.Error(), string(isolation)) {
				t.Errorf("%s: got %v, want ErrNotEnforced", isolation, err)
			}
		}
		if left := s.Sandboxes(); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
	t.Run("SBX-13 a closed network is asked of the service, an open one too", func(t *testing.T) {
		t.Parallel()
		s, b := cloud(t)
		for _, network := range []bool{true, false} {
			sb, err := b.Open(t.Context(), sandbox.Config{ID: "faults", Workspace: t.TempDir(), Network: network})
			if err != nil {
				t.Fatal(err)
			}
			if _, internet := s.Labels(s.Sandboxes()[0]); internet != network {
				t.Errorf("network %v: the machine was given %v", network, internet)
			}
			if err := sb.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("SBX-20 the probe really makes a machine and ends it", func(t *testing.T) {
		t.Parallel()
		s, b := cloud(t)
		if err := b.Probe(t.Context()); err != nil {
			t.Error(err)
		}
		if s.Requests("POST /sandboxes") != 1 || s.Requests("DELETE /sandboxes/") != 1 || s.Requests("POST /process.Process/Start") == 0 || len(s.Sandboxes()) != 0 {
			t.Errorf("left %v", s.Sandboxes())
		}
	})
}

func TestRunFaults(t *testing.T) {
	t.Parallel()
	for name, mute := range map[string]bool{"is cut": false, "goes silent": true} {
		t.Run("SBX-5 a stream that "+name+" in the middle of a command leaves its outcome unknown, and ends the command", func(t *testing.T) {
			t.Parallel()
			s := e2btest.New(t.TempDir())
			t.Cleanup(s.Close)
			cfg := config(s)
			cfg.Silence = 2 * time.Second
			sb := open(t, e2b.New(cfg))
			s.Fail(e2btest.Faults{Cut: "the-one", CutAfter: 3, Mute: mute})
			out, _, err := sh(t, sb, `echo begun; echo written > half; sleep 0.2; echo more; exec sleep 614`, "the-one")
			if !errors.Is(err, mirror.ErrCut) || !errors.Is(err, sandbox.ErrLost) || !strings.Contains(err.Error(), "unknown") {
				t.Errorf("got %q, %v, want ErrCut", out, err)
			}
			if list, err := sb.Processes(t.Context()); err != nil || len(list) > 0 {
				t.Errorf("left: %v, %v", list, err)
			}
			if data, err := sb.ReadFile("half"); err != nil || string(data) != "written\n" {
				t.Errorf("what it had done: got %q, %v", data, err)
			}
			if out, _, err := sh(t, sb, "cat half"); err != nil || out != "written\n" {
				t.Errorf("the next command: got %q, %v", out, err)
			}
		})
	}
	t.Run("ART-13 a download that is cut leaves what was there, is told, and the next command brings it", func(t *testing.T) {
		t.Parallel()
		s, b := cloud(t)
		sb := open(t, b)
		if err := sb.WriteFile("big", []byte("as it was")); err != nil {
			t.Fatal(err)
		}
		s.Fail(e2btest.Faults{CutDownload: 200_000})
		if _, _, err := sh(t, sb, `head -c 1000000 /dev/zero > big; echo x > after`); !errors.Is(err, mirror.ErrBehind) {
			t.Errorf("got %v, want ErrBehind", err)
		}
		if data, err := sb.ReadFile("big"); err != nil || string(data) != "as it was" {
			t.Errorf("got %d bytes, %v, want what was there", len(data), err)
		}
		if _, _, err := sh(t, sb, "true"); err != nil {
			t.Error(err)
		}
		if data, err := sb.ReadFile("big"); err != nil || len(data) != 1_000_000 {
			t.Errorf("got %d bytes, %v", len(data), err)
		}
	})
	t.Run("SBX-5 a machine whose time is over is told as gone, and Destroy is content", func(t *testing.T) {
		t.Parallel()
		s, b := cloud(t)
		sb := open(t, b)
		s.Expire(s.Sandboxes()[0])
		if _, _, err := sh(t, sb, "true"); !errors.Is(err, e2b.ErrMissing) {
			t.Errorf("got %v, want ErrGone", err)
		}
		if err := sb.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("SBX-20 a listing that no workspace can be is refused whole", func(t *testing.T) {
		t.Parallel()
		s, b := cloud(t)
		sb := open(t, b)
		outside := filepath.Join(filepath.Dir(sb.Workspace()), "planted")
		for _, name := range []string{"../planted", outside, "a/../../planted", ".", ""} {
			s.Fail(e2btest.Faults{Listing: func(real []byte) []byte {
				entry := strings.Join([]string{"f", "644", "7", "1.0", "1.0", "1", "", name}, "\x00") + "\x00"
				return append([]byte(entry), real...)
			}})
			if _, _, err := sh(t, sb, "echo x > y"); !errors.Is(err, mirror.ErrHostile) {
				t.Errorf("%q: got %v, want ErrHostile", name, err)
			}
		}
		if _, err := os.Lstat(outside); err == nil {
			t.Error("something was written outside")
		}
		if _, _, err := sh(t, sb, "true"); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
	t.Run("SBX-20 a listing that is cut off removes nothing", func(t *testing.T) {
		t.Parallel()
		s, b := cloud(t)
		sb := open(t, b)
		if err := sb.WriteFile("kept", []byte("kept")); err != nil {
			t.Fatal(err)
		}
		s.Fail(e2btest.Faults{Listing: func([]byte) []byte { return nil }})
		if _, _, err := sh(t, sb, "true"); err == nil {
			t.Error("got no error")
		}
		if data, err := sb.ReadFile("kept"); err != nil || string(data) != "kept" {
			t.Errorf("got %q, %v", data, err)
		}
	})
}

func TestReap(t *testing.T) {
	t.Parallel()
	t.Run("SBX-17 machines of lost toolrunners of this computer are ended, those of the living and of others are not", func(t *testing.T) {
		t.Parallel()
		s, b := cloud(t)
		for range 6 {
			open(t, b)
		}
		ids := s.Sandboxes()
		labels, _ := s.Labels(ids[0])
		name := labels["inspan-name"]
		rest := strings.TrimPrefix(name, "inspan-box-")
		owner, _, ok := strings.Cut(rest, "-")
		if !ok || rest == name {
			t.Fatalf("the name %q tells no owner", name)
		}
		lost := "inspan-box-" + owner + "9-lost" // a start that no process has
		s.Label(ids[1], "inspan-name", lost)
		s.Label(ids[2], "inspan-name", lost)
		s.Label(ids[2], "inspan-machine", "another")
		s.Label(ids[3], "inspan-name", "somebody-else")
		s.Label(ids[4], "inspan-name", lost)
		s.Label(ids[4], "inspan", "") // not ours
		if n, err := b.Reap(t.Context()); n != 1 || err != nil {
			t.Errorf("got %d, %v, want 1", n, err)
		}
		want := strings.Join(append(append([]string{}, ids[0]), ids[2:]...), " ")
		if got := strings.Join(s.Sandboxes(), " "); got != want {
			t.Errorf("left %s, want %s", got, want)
		}
		if n, err := b.Reap(t.Context()); n != 0 || err != nil {
			t.Errorf("again: got %d, %v", n, err)
		}
	})
	t.Run("SBX-17 without a key no one is asked", func(t *testing.T) {
		t.Parallel()
		s, _ := cloud(t)
		cfg := config(s)
		cfg.Key = secret.Value{}
		if n, err := e2b.New(cfg).Reap(t.Context()); n != 0 || err != nil || s.Requests("") != 0 {
			t.Errorf("got %d, %v", n, err)
		}
	})
}
