package kubernetes_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/kubernetes"
	"github.com/inspan/inspan/internal/sandbox/kubernetes/kubetest"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// pooled is a cluster with a warm pool, and settings for it.
func pooled(t testing.TB) (*kubetest.Server, kubernetes.Config) {
	s, cfg := cluster(t)
	s.Warm(kubetest.Template())
	cfg.Image, cfg.WarmPool = "", kubetest.Pool
	return s, cfg
}

// TestClaimExam is not parallel, because it counts what the whole process allocates.
func TestClaimExam(t *testing.T) {
	_, cfg := pooled(t)
	sandboxtest.ExamDouble(t, kubernetes.New(cfg), sandboxtest.Made)
}

// box is the container of a template, walls its security context.
func instance(template map[string]any) map[string]any {
	return template["containers"].([]any)[0].(map[string]any)
}
func isolation(template map[string]any) map[string]any {
	return instance(template)["securityContext"].(map[string]any)
}

func TestClaims(t *testing.T) {
	t.Parallel()
	t.Run("SBX-18 SBX-13 a claim says whose it is, ends by itself, and is gone with its pod after Destroy", func(t *testing.T) {
		t.Parallel()
		s, cfg := pooled(t)
		cfg.Enforces = []string{"network", "cpu", "memory", "disk"}
		sb := open(t, kubernetes.New(cfg), sandbox.Config{Limits: sandbox.Limits{CPU: 1.5, Memory: 64 << 20, Disk: 1 << 30, Wall: time.Hour}})
		text, err := json.Marshal(s.Claim(s.Claims()[0]))
		if err != nil {
			t.Fatal(err)
		}
		end := time.Now().Add(70 * time.Minute).UTC().Format(`"2006-01-02T15:`) // a test at the end of an hour sees it begin
		if !strings.Contains(string(text), end) && !strings.Contains(string(text), time.Now().Add(69*time.Minute).UTC().Format(`"2006-01-02T15:`)) {
			t.Errorf("the claim does not end at %s: %s", end, text)
		}
		for _, want := range []string{`"warmPoolRef":{"name":"tools"}`, `"inspan.dev/kind":"sandbox"`, `"inspan.dev/machine":`, `"inspan.sandbox.users.io/network":"closed"`} {
			if !strings.Contains(string(text), want) {
				t.Errorf("the claim has no %s: %s", want, text)
			}
		}
		if out, err := sh(t, sb, "echo well", sandbox.Cmd{}); err != nil || out != "well\n" || len(s.Pods()) != 1 {
			t.Errorf("got %q, %v", out, err)
		}
		if err := sb.Destroy(t.Context()); err != nil || len(s.Pods())+len(s.Claims()) != 0 {
			t.Errorf("left %v, %v, %v", s.Pods(), s.Claims(), err)
		}
	})
	t.Run("SBX-17 claims of lost toolrunners of this computer are deleted, those of the living and of others are not", func(t *testing.T) {
		t.Parallel()
		s, cfg := pooled(t)
		b := kubernetes.New(cfg)
		for range 4 {
			open(t, b, sandbox.Config{Network: true})
		}
		claims := s.Claims()
		lost := ofLost(t, s.Claim(claims[0]))
		for _, i := range []int{1, 2, 3} {
			s.Mark(claims[i], "annotations", "inspan.dev/name", lost)
		}
		s.Mark(claims[2], "labels", "inspan.dev/machine", "another")
		s.Mark(claims[3], "labels", "inspan.dev/kind", "other")
		if n, err := b.Reap(t.Context()); n != 1 || err != nil {
			t.Errorf("got %d, %v, want 1", n, err)
		}
		if got, want := s.Claims(), append([]string{claims[0]}, claims[2:]...); strings.Join(got, " ") != strings.Join(want, " ") || len(s.Pods()) != 3 {
			t.Errorf("left %v, want %v; pods %v", got, want, s.Pods())
		}
	})
	t.Run("SBX-20 the probe really claims a pod and gives it back", func(t *testing.T) {
		t.Parallel()
		s, cfg := pooled(t)
		if err := kubernetes.New(cfg).Probe(t.Context()); err != nil || len(s.Pods())+len(s.Claims()) != 0 || len(s.Paths()) == 0 {
			t.Errorf("got %v, left %v %v", err, s.Pods(), s.Claims())
		}
	})
}

func TestClaimFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(s *kubetest.Server, cfg *kubernetes.Config)
		want  error
		says  string
	}{
		"a claim that is not granted in time": {func(s *kubetest.Server, cfg *kubernetes.Config) {
			s.Fail(kubetest.Faults{Ungranted: true})
			cfg.StartWait = 50 * time.Millisecond
		}, kubernetes.ErrClaim, "0/3 nodes"},
		"a pool that is not there": {func(_ *kubetest.Server, cfg *kubernetes.Config) {
			cfg.WarmPool, cfg.StartWait = "nope", 50*time.Millisecond
		}, kubernetes.ErrClaim, "WarmPoolNotFound"},
		"no agent-sandbox":       {func(s *kubetest.Server, _ *kubernetes.Config) { s.Warm(nil) }, kubernetes.ErrCluster, "install agent-sandbox"},
		"refused":                {func(s *kubetest.Server, _ *kubernetes.Config) { s.Fail(kubetest.Faults{Refuse: []int{403}}) }, kubernetes.ErrCluster, "403"},
		"refused after it":       {func(s *kubetest.Server, _ *kubernetes.Config) { s.Fail(kubetest.Faults{Refuse: []int{0, 403}}) }, kubernetes.ErrCluster, "403"},
		"a pool and an image":    {func(_ *kubetest.Server, cfg *kubernetes.Config) { cfg.Image = kubetest.Image }, kubernetes.ErrSettings, "INSPAN_KUBERNETES_WARM_POOL"},
		"a pool and a runtime":   {func(_ *kubetest.Server, cfg *kubernetes.Config) { cfg.RuntimeClass = "kata" }, kubernetes.ErrSettings, "template"},
		"neither pool nor image": {func(_ *kubetest.Server, cfg *kubernetes.Config) { cfg.WarmPool = "" }, kubernetes.ErrSettings, "INSPAN_KUBERNETES_WARM_POOL"},
	} {
		t.Run("SBX-20 "+name+" is told with what to do, and nothing is left", func(t *testing.T) {
			t.Parallel()
			s, cfg := pooled(t)
			c.spoil(s, &cfg)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			_, err := kubernetes.New(cfg).Open(ctx, sandbox.Config{ID: "pods", Workspace: t.TempDir(), Network: true})
			if !errors.Is(err, c.want) || !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), kubetest.Token) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.says)
			}
			if left := append(s.Pods(), s.Claims()...); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
	for name, c := range map[string]struct {
		spoil func(template map[string]any)
		says  string
	}{
		"root":            {func(p map[string]any) { p["securityContext"].(map[string]any)["runAsUser"] = 0 }, "runAsUser"},
		"root by default": {func(p map[string]any) { delete(p, "securityContext") }, "runAsNonRoot"},
		"root of the container, though the pod is not": {func(p map[string]any) { isolation(p)["runAsUser"] = 0 }, "runAsUser"},
		"privileged":           {func(p map[string]any) { isolation(p)["privileged"] = true }, "privileged"},
		"new privileges":       {func(p map[string]any) { delete(isolation(p), "allowPrivilegeEscalation") }, "allowPrivilegeEscalation"},
		"capabilities":         {func(p map[string]any) { delete(isolation(p), "capabilities") }, "capabilities"},
		"an added capability":  {func(p map[string]any) { isolation(p)["capabilities"].(map[string]any)["add"] = []any{"SYS_ADMIN"} }, "capabilities"},
		"no filter":            {func(p map[string]any) { isolation(p)["seccompProfile"] = map[string]any{"type": "Unconfined"} }, "seccompProfile"},
		"the node's network":   {func(p map[string]any) { p["hostNetwork"] = true }, "hostNetwork"},
		"the node's processes": {func(p map[string]any) { p["hostPID"] = true }, "hostPID"},
		"the node's files": {func(p map[string]any) {
			p["volumes"] = []any{map[string]any{"name": "v", "hostPath": map[string]any{"path": "/"}}}
		}, "hostPath"},
		"a token": {func(p map[string]any) {
			p["volumes"] = []any{map[string]any{"name": "v", "projected": map[string]any{"sources": []any{map[string]any{"serviceAccountToken": map[string]any{"path": "token"}}}}}}
		}, "automountServiceAccountToken"},
		"no limit":           {func(p map[string]any) { delete(instance(p), "resources") }, "limit of memory"},
		"too much memory":    {func(p map[string]any) { instance(p)["resources"] = limits("1", "65Mi", "1Gi") }, "limit of memory is 67108864"},
		"too many cpus":      {func(p map[string]any) { instance(p)["resources"] = limits("1501m", "64Mi", "1Gi") }, "limit of cpu is 1500m"},
		"a limit of no size": {func(p map[string]any) { instance(p)["resources"] = limits("1", "much", "1Gi") }, "limit of memory"},
		"too much disk":      {func(p map[string]any) { instance(p)["resources"] = limits("1", "64M", "1.1Gi") }, "limit of ephemeral-storage"},
	} {
		t.Run("SBX-20 a template with "+name+" is refused, and nothing is left", func(t *testing.T) {
			t.Parallel()
			s, cfg := pooled(t)
			cfg.Enforces = []string{"network", "cpu", "memory", "disk"}
			template := kubetest.Template()
			c.spoil(template)
			s.Warm(template)
			_, err := kubernetes.New(cfg).Open(t.Context(), sandbox.Config{ID: "pods", Workspace: t.TempDir(), Limits: sandbox.Limits{CPU: 1.5, Memory: 64 << 20, Disk: 1 << 30}})
			if !errors.Is(err, sandbox.ErrNotEnforced) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want ErrNotEnforced with %q", err, c.says)
			}
			if left := append(s.Pods(), s.Claims()...); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func limits(cpu, memory, disk string) map[string]any {
	return map[string]any{"limits": map[string]any{"cpu": cpu, "memory": memory, "ephemeral-storage": disk}}
}
