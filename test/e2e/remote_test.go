package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/sandbox/e2b/e2btest"
	"github.com/inspan/inspan/internal/sandbox/kubernetes/kubetest"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
)

func TestE2BStation(t *testing.T) {
	t.Parallel()
	cloud := e2btest.New(t.TempDir())
	t.Cleanup(cloud.Close)
	w := newWorld(t)
	w.tune = func(c *service.Config) {
		c.E2BKey, c.E2BURL, c.E2BSandboxURL = secret.New(e2btest.Key), cloud.URL, cloud.URL
	}
	away := events.Sandbox{Mode: "e2b"}
	w.agent(events.Agent{Name: "afar", Tools: []string{"bash", "write"}, Sandbox: away}, `turns:
  - when: {turn: 1}
    calls:
      - {name: write, input: {path: sub/here.txt, content: "from here\n"}}
  - when: {turn: 2}
    calls:
      - {name: bash, input: {command: "cd sub && cat here.txt && echo from there > there.md && rm here.txt && env"}}
  - when: {turn: 3}
    calls:
      - {name: bash, input: {command: "pwd; ls; exit 3"}}
  - when: {turn: 4}
    text: done
`)
	w.agent(events.Agent{Name: "picky", Tools: []string{"bash"}, Sandbox: events.Sandbox{Mode: "e2b", PIDs: 10}}, calling("bash", `{command: "true"}`))
	w.start()
	t.Run("SBX-5 TEST-11c SBX-18 an agent's commands run in the cloud, and what they change is in the workspace", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "afar", Agent: "afar", Task: "go"})
		if s := w.ended("afar"); s.Status != events.Completed {
			t.Fatalf("got %s:\n%s", s.Status, w.story("afar"))
		}
		list := said[*events.CallFinishedData](w, "afar")
		if len(list) != 3 {
			t.Fatalf("got %d results, want 3:\n%s", len(list), w.story("afar"))
		}
		if c := list[1]; c.Sandbox != "e2b" || !strings.Contains(c.Output, "from here") || strings.Contains(c.Output, e2btest.Key) {
			t.Errorf("got %s: %q", c.Sandbox, c.Output)
		}
		if c := list[2]; !strings.Contains(c.Output, "/sub\n") || !strings.Contains(c.Output, "there.md") || strings.Contains(c.Output, "here.txt\nthere") {
			t.Errorf("the folder of the shell is lost: %q", c.Output)
		}
		found, err := filepath.Glob(filepath.Join(w.dir, "work", "*", "sub", "*"))
		more, _ := filepath.Glob(filepath.Join(w.dir, "work", "*", "*", "sub", "*"))
		if found = append(found, more...); err != nil || len(found) != 1 || filepath.Base(found[0]) != "there.md" {
			t.Fatalf("the workspace has %v, %v", found, err)
		}
		if b, err := os.ReadFile(found[0]); string(b) != "from there\n" {
			t.Errorf("got %q, %v", b, err)
		}
	})
	t.Run("SBX-15 ART-13 no machine is left when the run has ended, and what was made there is an artifact", func(t *testing.T) {
		w := w.on(t)
		if left := cloud.Sandboxes(); len(left) != 0 || cloud.Requests("POST /sandboxes") == 0 {
			t.Errorf("left: %v", left)
		}
		list := artifact.Latest(w.state("afar"))
		if len(list) != 1 || list[0].Path != "sub/there.md" || list[0].Kept != events.StoredInBucket {
			t.Fatalf("got %+v", list)
		}
		if b, err := w.ports.Artifacts.Get(w.ctx(), "afar", list[0].Ref()); err != nil || string(b) != "from there\n" {
			t.Errorf("got %q, %v", b, err)
		}
	})
	t.Run("SBX-20 a limit that the service cannot keep fails the call before a machine is made", func(t *testing.T) {
		w := w.on(t)
		before := cloud.Requests("POST /sandboxes")
		w.task(events.Task{ID: "picky", Agent: "picky", Task: "go"})
		w.ended("picky")
		list := said[*events.CallFailedData](w, "picky")
		if len(list) != 1 || !strings.Contains(list[0].Error, "pids") {
			t.Errorf("got %+v:\n%s", list, w.story("picky"))
		}
		if n := cloud.Requests("POST /sandboxes"); n != before {
			t.Errorf("%d machines were made", n-before)
		}
	})
}

func TestKubernetesStation(t *testing.T) {
	t.Parallel()
	cluster := kubetest.New(t.TempDir())
	t.Cleanup(cluster.Close)
	token, err := kubetest.TokenFile(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.tune = func(c *service.Config) {
		c.KubeURL, c.KubeTokenFile, c.KubeImage, c.KubeEnforces = cluster.URL, token, kubetest.Image, []string{"station"}
	}
	for name, network := range map[string]bool{"podded": true, "closed": false} {
		w.agent(events.Agent{Name: name, Tools: []string{"bash"}, Sandbox: events.Sandbox{Mode: "kubernetes", Network: network}},
			calling("bash", `{command: "echo made > made.md && cat made.md"}`))
	}
	w.start()
	t.Run("TEST-11 SBX-15 an agent's commands run in a pod, what they change is in the workspace, and no pod is left", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "podded", Agent: "podded", Task: "go"})
		if s := w.ended("podded"); s.Status != events.Completed {
			t.Fatalf("got %s:\n%s", s.Status, w.story("podded"))
		}
		list := said[*events.CallFinishedData](w, "podded")
		if len(list) != 1 || list[0].Sandbox != "kubernetes" || !strings.Contains(list[0].Output, "made") {
			t.Fatalf("got %+v:\n%s", list, w.story("podded"))
		}
		if saved := artifact.Latest(w.state("podded")); len(saved) != 1 || saved[0].Path != "made.md" {
			t.Errorf("got %+v", saved)
		}
		if left := cluster.Pods(); len(left) != 0 || len(cluster.Paths()) == 0 {
			t.Errorf("left: %v", left)
		}
	})
	t.Run("SBX-20 a closed network that no one states fails the call", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "closed", Agent: "closed", Task: "go"})
		w.ended("closed")
		if list := said[*events.CallFailedData](w, "closed"); len(list) != 1 || !strings.Contains(list[0].Error, "INSPAN_KUBERNETES_ENFORCES") {
			t.Errorf("got %+v:\n%s", list, w.story("closed"))
		}
	})
}

func TestWarmPoolStation(t *testing.T) {
	t.Parallel()
	cluster := kubetest.New(t.TempDir())
	t.Cleanup(cluster.Close)
	cluster.Warm(kubetest.Template())
	token, err := kubetest.TokenFile(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.tune = func(c *service.Config) {
		c.KubeURL, c.KubeTokenFile, c.KubeWarmPool, c.KubeEnforces = cluster.URL, token, kubetest.Pool, []string{"station"}
	}
	w.agent(events.Agent{Name: "claiming", Tools: []string{"bash"}, Sandbox: events.Sandbox{Mode: "kubernetes", Network: true}},
		calling("bash", `{command: "echo made > made.md && cat made.md"}`))
	w.start()
	t.Run("TEST-11 SBX-15 an agent's commands run in a pod that is claimed, and no claim is left", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "claiming", Agent: "claiming", Task: "go"})
		if s := w.ended("claiming"); s.Status != events.Completed {
			t.Fatalf("got %s:\n%s", s.Status, w.story("claiming"))
		}
		list := said[*events.CallFinishedData](w, "claiming")
		if len(list) != 1 || list[0].Sandbox != "kubernetes" || !strings.Contains(list[0].Output, "made") {
			t.Fatalf("got %+v:\n%s", list, w.story("claiming"))
		}
		if left := append(cluster.Pods(), cluster.Claims()...); len(left) != 0 || !strings.Contains(strings.Join(cluster.Paths(), " "), "sandboxclaims") {
			t.Errorf("left: %v", left)
		}
	})
}
