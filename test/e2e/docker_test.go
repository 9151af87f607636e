package e2e

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox/docker"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// containers asks an engine for all there are.
func containers(t *testing.T, host string) string {
	t.Helper()
	for _, other := range []string{os.Getenv("DOCKER_HOST"), "unix:///var/run/docker.sock"} {
		if host == "" {
			host = other
		}
	}
	scheme, at, _ := strings.Cut(host, "://")
	var d net.Dialer
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, scheme, at) }}}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://engine/containers/json?all=1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	list, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status, err)
	}
	return string(list)
}

// engine is the container engine that make docker names, and how this user works with it.
func engine() docker.Config {
	c := docker.Config{Host: os.Getenv("INSPAN_TEST_DOCKER_HOST"), Image: os.Getenv("INSPAN_TEST_DOCKER_IMAGE"), Helper: os.Getenv("INSPAN_TEST_DOCKER_HELPER")}
	if os.Getuid() == 0 {
		c.User = "0:0"
	}
	c.Image = cmp.Or(c.Image, "set-INSPAN_TEST_DOCKER_IMAGE")
	return c
}

// TestDockerStation needs an engine: make docker.
func TestDockerStation(t *testing.T) {
	t.Parallel()
	with := engine()
	host, image := with.Host, with.Image
	backend := docker.New(with)
	sandboxtest.Need(t, backend)
	w := newWorld(t)
	w.tune = func(c *service.Config) { c.DockerHost, c.DockerUser, c.DockerHelper = host, with.User, with.Helper }
	w.agent(events.Agent{Name: "boxed", Tools: []string{"bash", "write"}, Sandbox: events.Sandbox{Mode: "docker", Image: image, PIDs: 100, MemoryBytes: 128 << 20}},
		calling("bash", `{command: "echo made > here; cat here; hostname; ls /proc | grep -cx 1; ls `+w.dir+`/agents || echo closed; touch /etc/x || echo shut"}`))
	w.agent(events.Agent{Name: "imageless", Tools: []string{"bash"}, Sandbox: events.Sandbox{Mode: "docker", Image: "no/such-image:1"}}, calling("bash", `{command: "true"}`))
	stations := w.start()
	t.Run("TEST-11b an agent's commands run in a container, and its events say so", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "boxed", Agent: "boxed", Task: "go"})
		if s := w.ended("boxed"); s.Status != events.Completed {
			t.Fatalf("got %s:\n%s", s.Status, w.story("boxed"))
		}
		list := said[*events.CallFinishedData](w, "boxed")
		if len(list) != 1 {
			t.Fatalf("got %d results, want 1:\n%s", len(list), w.story("boxed"))
		}
		c := list[0]
		if c.Sandbox != "docker" || c.Usage == nil || c.Usage.Commands != 1 || c.Usage.MaxMemoryBytes == 0 {
			t.Errorf("got %s, %+v", c.Sandbox, c.Usage)
		}
		for _, want := range []string{"made\n", "inspan\n", "closed\n", "shut\n"} {
			if !strings.Contains(c.Output, want) {
				t.Errorf("got %q, want %q in it", c.Output, want)
			}
		}
		found, err := filepath.Glob(filepath.Join(w.dir, "work", "*", "here"))
		if err != nil || len(found) == 0 {
			found, err = filepath.Glob(filepath.Join(w.dir, "work", "*", "*", "here"))
		}
		if err != nil || len(found) != 1 {
			t.Errorf("the workspace: got %q, %v, want what the command made", found, err)
		}
	})
	t.Run("SBX-15 nothing of it is left when its run has ended", func(t *testing.T) {
		mine := fmt.Sprintf(".%d.", os.Getpid())
		if list := containers(t, host); strings.Contains(list, mine) {
			t.Errorf("got %s", list)
		}
	})
	t.Run("SBX-20 an image that is not there fails the call with what to do", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "imageless", Agent: "imageless", Task: "go"})
		w.ended("imageless")
		list := said[*events.CallFailedData](w, "imageless")
		if len(list) != 1 || !strings.Contains(list[0].Error, "docker pull no/such-image:1") {
			t.Errorf("got %+v:\n%s", list, w.story("imageless"))
		}
	})
	t.Run("ART-13 SBX-15 a later step finds in its own container what an earlier one made, and both are artifacts", func(t *testing.T) {
		w := w.on(t)
		w.ports.Models = inSteps(t, map[string][]ask{
			"a": {shell("echo one > ~/note; mkdir -p out; echo made > out/first.md; hostname > ../host || true"), shell("cat ~/note")},
			"b": {shell("cat out/first.md; ls -A ~; echo more > out/second.md")},
		})
		w.tune = func(c *service.Config) {
			c.DockerHost, c.DockerUser, c.DockerHelper, c.SandboxKeep = host, with.User, with.Helper, time.Minute
		}
		w.agent(events.Agent{Name: "stepper", Model: "heard/x", Tools: []string{"bash"}, Sandbox: events.Sandbox{Mode: "docker", Image: image}}, "")
		stations.stop()
		w.start()
		w.task(events.Task{ID: "steps", Agent: "stepper", Task: "go", Plan: &events.TaskPlan{Steps: []events.TaskStep{{ID: "a", Description: "a"}, {ID: "b", Description: "b", Needs: []string{"a"}}}}})
		s := w.ended("steps")
		if got := results(s); s.Status != events.Completed || len(got) != 3 || got[1] != "one\n" || got[2] != "made\n" {
			t.Errorf("got %q\n%s", got, w.story("steps"))
		}
		var names []string
		for _, a := range run.Slice(s.Artifacts) {
			names = append(names, a.Step+":"+a.Path)
		}
		if strings.Join(names, " ") != "a:out/first.md b:out/second.md" {
			t.Errorf("its artifacts are %q", names)
		}
	})
}
