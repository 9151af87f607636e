package kubernetes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/kubernetes"
	"github.com/inspan/inspan/internal/sandbox/kubernetes/kubetest"
	"github.com/inspan/inspan/internal/sandbox/mirror"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// cluster starts a double of an API server, and returns settings for it.
func cluster(t testing.TB) (*kubetest.Server, kubernetes.Config) {
	t.Helper()
	s := kubetest.New(t.TempDir())
	t.Cleanup(s.Close)
	token, err := kubetest.TokenFile(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s, kubernetes.Config{URL: s.URL, TokenFile: token, Image: kubetest.Image, Poll: time.Millisecond}
}

func open(t testing.TB, b *kubernetes.Backend, cfg sandbox.Config) sandbox.Sandbox {
	t.Helper()
	cfg.ID, cfg.Workspace = "pods", t.TempDir()
	sb, err := b.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Destroy(context.Background()) }) // some tests end its pod
	return sb
}

func sh(t testing.TB, sb sandbox.Sandbox, script string, more sandbox.Cmd) (string, error) {
	t.Helper()
	var out bytes.Buffer
	more.Args, more.Stdout, more.Stderr = []string{"sh", "-c", script}, &out, &out
	_, err := sb.Exec(t.Context(), more)
	return out.String(), err
}

// TestExam is not parallel, because it counts what the whole process allocates.
func TestExam(t *testing.T) {
	_, cfg := cluster(t)
	sandboxtest.ExamDouble(t, kubernetes.New(cfg), sandboxtest.Carried)
}

// BenchmarkCosts is against the double: what is measured is this side.
func BenchmarkCosts(b *testing.B) {
	_, cfg := cluster(b)
	sandboxtest.Costs(b, kubernetes.New(cfg))
}

func TestPods(t *testing.T) {
	t.Parallel()
	t.Run("SBX-18 SBX-13 a pod is closed, has the settings and its limits, and is gone after Destroy", func(t *testing.T) {
		t.Parallel()
		s, cfg := cluster(t)
		cfg.RuntimeClass, cfg.Enforces = "gvisor", []string{"network", "cpu", "memory", "disk"}
		sb := open(t, kubernetes.New(cfg), sandbox.Config{Limits: sandbox.Limits{CPU: 1.5, Memory: 64 << 20, Disk: 1 << 30, Wall: time.Hour}})
		text, err := json.Marshal(s.Pod(s.Pods()[0]))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"runtimeClassName":"gvisor"`, `"cpu":"1500m"`, `"memory":"67108864"`, `"ephemeral-storage":"1073741824"`, `"sizeLimit":"1073741824"`,
			`"inspan.dev/network":"closed"`, `"activeDeadlineSeconds":4200`, `"automountServiceAccountToken":false`, `"drop":["ALL"]`} {
			if !strings.Contains(string(text), want) {
				t.Errorf("the pod has no %s: %s", want, text)
			}
		}
		if err := sb.Destroy(t.Context()); err != nil || len(s.Pods()) != 0 {
			t.Errorf("left %v, %v", s.Pods(), err)
		}
	})
	t.Run("SBX-20 what only the cluster can keep is refused until an operator states it", func(t *testing.T) {
		t.Parallel()
		s, cfg := cluster(t)
		for _, c := range []sandbox.Config{{}, {Network: true, Limits: sandbox.Limits{CPU: 1}}, {Network: true, Limits: sandbox.Limits{Memory: 1 << 30}}, {Network: true, Limits: sandbox.Limits{Disk: 1 << 30}}} {
			c.ID, c.Workspace = "pods", t.TempDir()
			if _, err := kubernetes.New(cfg).Open(t.Context(), c); !errors.Is(err, sandbox.ErrNotEnforced) || !strings.Contains(err.Error(), "INSPAN_KUBERNETES_ENFORCES") {
				t.Errorf("got %v, want ErrNotEnforced", err)
			}
		}
		cfg.Enforces = []string{"processes"}
		if _, err := kubernetes.New(cfg).Open(t.Context(), sandbox.Config{ID: "pods", Workspace: t.TempDir(), Network: true}); !errors.Is(err, kubernetes.ErrSettings) {
			t.Errorf("got %v, want ErrSettings", err)
		}
		if len(s.Paths()) != 0 {
			t.Errorf("the cluster was asked: %v", s.Paths())
		}
	})
	t.Run("TOOL-17 no command line, environment or file is in the address of a request", func(t *testing.T) {
		t.Parallel()
		s, cfg := cluster(t)
		sb := open(t, kubernetes.New(cfg), sandbox.Config{Network: true, Env: []string{"GIVEN=sesame-one"}})
		if err := sb.WriteFile("f", []byte("sesame-two")); err != nil {
			t.Fatal(err)
		}
		out, err := sh(t, sb, `echo "$GIVEN $MORE $(cat f) sesame-three 'it'"`, sandbox.Cmd{Env: []string{"MORE=it's sesame-four"}})
		if err != nil || out != "sesame-one it's sesame-four sesame-two sesame-three 'it'\n" {
			t.Errorf("got %q, %v", out, err)
		}
		for _, path := range s.Paths() {
			if strings.Contains(path, "sesame") || len(path) > 600 {
				t.Errorf("an address says %s", path)
			}
		}
	})
	t.Run("SBX-17 pods of lost toolrunners of this computer are deleted, those of the living and of others are not", func(t *testing.T) {
		t.Parallel()
		s, cfg := cluster(t)
		b := kubernetes.New(cfg)
		for range 5 {
			open(t, b, sandbox.Config{Network: true})
		}
		pods := s.Pods()
		lost := ofLost(t, s.Pod(pods[0]))
		for _, i := range []int{1, 2, 3} {
			s.Mark(pods[i], "annotations", "inspan.dev/name", lost)
		}
		s.Mark(pods[2], "labels", "inspan.dev/machine", "another")
		s.Mark(pods[3], "labels", "inspan.dev/kind", "other")
		if n, err := b.Reap(t.Context()); n != 1 || err != nil {
			t.Errorf("got %d, %v, want 1", n, err)
		}
		if got, want := s.Pods(), append([]string{pods[0]}, pods[2:]...); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("left %v, want %v", got, want)
		}
	})
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(s *kubetest.Server, cfg *kubernetes.Config)
		want  error
		says  string
	}{
		"no image named":             {func(_ *kubetest.Server, cfg *kubernetes.Config) { cfg.Image = "" }, kubernetes.ErrSettings, "INSPAN_KUBERNETES_IMAGE"},
		"an image that is not there": {func(_ *kubetest.Server, cfg *kubernetes.Config) { cfg.Image = "nope" }, kubernetes.ErrPod, "ErrImagePull"},
		"no node": {func(s *kubetest.Server, cfg *kubernetes.Config) {
			s.Fail(kubetest.Faults{Unschedulable: true})
			cfg.StartWait = 50 * time.Millisecond
		}, kubernetes.ErrPod, "0/3 nodes"},
		"no token":                  {func(_ *kubetest.Server, cfg *kubernetes.Config) { cfg.TokenFile = "" }, kubernetes.ErrCluster, "401"},
		"a token that is not there": {func(_ *kubetest.Server, cfg *kubernetes.Config) { cfg.TokenFile = "/not/there" }, kubernetes.ErrCluster, "TOKEN_FILE"},
		"refused":                   {func(s *kubetest.Server, _ *kubernetes.Config) { s.Fail(kubetest.Faults{Refuse: []int{403}}) }, kubernetes.ErrCluster, "403"},
		"an old server":             {func(s *kubetest.Server, _ *kubernetes.Config) { s.Fail(kubetest.Faults{Old: true}) }, kubernetes.ErrCluster, "1.30"},
		"no one there":              {func(_ *kubetest.Server, cfg *kubernetes.Config) { cfg.URL = "http://127.0.0.1:1" }, kubernetes.ErrCluster, "127.0.0.1:1"},
	} {
		t.Run("SBX-20 "+name+" is told with what to do, and no pod is left", func(t *testing.T) {
			t.Parallel()
			s, cfg := cluster(t)
			c.spoil(s, &cfg)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			_, err := kubernetes.New(cfg).Open(ctx, sandbox.Config{ID: "pods", Workspace: t.TempDir(), Network: true})
			if !errors.Is(err, c.want) || !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), kubetest.Token) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.says)
			}
			if left := s.Pods(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
	t.Run("SBX-15 a server that refuses for now is asked again", func(t *testing.T) {
		t.Parallel()
		s, cfg := cluster(t)
		s.Fail(kubetest.Faults{Refuse: []int{429, 503}})
		if out, err := sh(t, open(t, kubernetes.New(cfg), sandbox.Config{Network: true}), "echo well", sandbox.Cmd{}); err != nil || out != "well\n" {
			t.Errorf("got %q, %v", out, err)
		}
	})
	t.Run("SBX-5 a connection that is cut in the middle of a command leaves its outcome unknown, and ends the command", func(t *testing.T) {
		t.Parallel()
		s, cfg := cluster(t)
		sb := open(t, kubernetes.New(cfg), sandbox.Config{Network: true})
		s.Fail(kubetest.Faults{Cut: "now"})
		if out, err := sh(t, sb, `echo half > half; echo now; exec sleep 615`, sandbox.Cmd{}); !errors.Is(err, mirror.ErrCut) {
			t.Errorf("got %q, %v, want ErrCut", out, err)
		}
		if list, err := sb.Processes(t.Context()); err != nil || len(list) > 0 {
			t.Errorf("left: %v, %v", list, err)
		}
		if data, err := sb.ReadFile("half"); err != nil || string(data) != "half\n" {
			t.Errorf("what it had done: got %q, %v", data, err)
		}
	})
	t.Run("SBX-12 a pod that its node evicts is told as the limit of the disk where there is one, and as gone where it is", func(t *testing.T) {
		t.Parallel()
		for limit, want := range map[int64]error{1 << 30: sandbox.ErrDisk, 0: kubernetes.ErrPod} {
			s, cfg := cluster(t)
			cfg.Enforces = []string{"disk"}
			sb := open(t, kubernetes.New(cfg), sandbox.Config{Network: true, Limits: sandbox.Limits{Disk: limit}})
			if _, err := sh(t, sb, "true", sandbox.Cmd{}); err != nil {
				t.Fatal(err)
			}
			s.Evict(s.Pods()[0], `Usage of EmptyDir volume "home" exceeds the limit`)
			_, err := sh(t, sb, "true", sandbox.Cmd{})
			if !errors.Is(err, want) || errors.Is(err, sandbox.ErrDisk) != (limit > 0) || !strings.Contains(err.Error(), "exceeds the limit") {
				t.Errorf("limit %d: got %v, want %v", limit, err, want)
			}
			if err := sb.Destroy(t.Context()); err != nil || len(s.Pods()) != 0 {
				t.Errorf("left %v, %v", s.Pods(), err)
			}
			s.Close()
		}
	})
	t.Run("SBX-20 the probe really makes a pod and deletes it", func(t *testing.T) {
		t.Parallel()
		s, cfg := cluster(t)
		if err := kubernetes.New(cfg).Probe(t.Context()); err != nil || len(s.Pods()) != 0 || len(s.Paths()) == 0 {
			t.Errorf("got %v, left %v", err, s.Pods())
		}
	})
}

// ofLost is a name as that of an object, of an owner that no process is.
func ofLost(t *testing.T, object map[string]any) string {
	t.Helper()
	notes, _ := object["metadata"].(map[string]any)["annotations"].(map[string]any)
	owner, _, ok := strings.Cut(strings.TrimPrefix(fmt.Sprint(notes["inspan.dev/name"]), "inspan-box-"), "-")
	if !ok {
		t.Fatalf("%v tells no owner", notes)
	}
	return "inspan-box-" + owner + "9-lost" // a start that no process has
}
