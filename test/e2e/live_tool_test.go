package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// release lets the commands of a run go on that wait for a file.
func (w *world) release(runID, name string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, "work", "run", runID, name), nil, 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// told gathers the output of tools that a watcher is told, by call, with its marks.
func (w *world) told(runID, call string) *viewer {
	w.t.Helper()
	c, err := operator.On(w.conn, "test")
	if err != nil {
		w.t.Fatal(err)
	}
	v := &viewer{news: make(chan struct{}, 1)} // one is enough: it only says "look again"
	stop, err := c.Stream(w.ctx(), runID, func(p client.Piece) {
		if p.Call == call {
			p.Event = p.Output
			v.receive(p)
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(stop)
	return v
}

func TestLiveToolOutput(t *testing.T) {
	t.Parallel()
	for _, streaming := range []string{"nats", "jetstream"} {
		t.Run("OBS-12 OBS-9 SAFE-15 the output of a command comes while it runs, in order, with its end and without secrets: "+streaming, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			const wait = "; while [ ! -e %s ]; do sleep 0.02; done; "
			until := func(name string) string { return strings.ReplaceAll(wait, "%s", name) }
			w.ports.Models = inTurns(t, one(
				shell("echo one"+until("z")+"echo two >&2"+until("a")+"printf 'key hunter2'"+until("b")+"printf 'horse and hunter'"+until("c")+"echo"),
				beyond("echo early"+until("d")+"echo late"),
				shell("touch d"),
				output("bg-c2-1"), output("bg-c2-1"), output("bg-c2-1"))...)
			w.tune = func(c *service.Config) {
				c.Streaming = streaming
				c.SandboxSecrets = secret.New("TOKEN=hunter2horse")
			}
			w.agent(backgrounder(), "")
			w.start()
			v, later := w.told("said", "c1-1"), w.told("said", "bg-c2-1")
			w.task(events.Task{ID: "said", Agent: "runner", Task: "go"})
			v.sees(w, "[stdout]one\n")
			w.release("said", "z")
			v.sees(w, "[stdout]one\n[stderr]two\n")
			w.release("said", "a")
			v.sees(w, "[stdout]one\n[stderr]two\n[stdout]key ") // the rest may be the beginning of the secret
			w.told("said", "c1-1").sees(w, "[stdout]one\n[stderr]two\n[stdout]key ")
			w.release("said", "b")
			v.sees(w, "[stdout]one\n[stderr]two\n[stdout]key *** and ")
			w.release("said", "c")
			v.sees(w, "[stdout]one\n[stderr]two\n[stdout]key *** and hunter\n[end ]")
			later.sees(w, "[stdout]early\nlate\n[end ]")
			s := w.ended("said")
			if got := s.ToolCallHistory.At(0).Result; got != "key *** and hunter\n" && !strings.Contains(got, "key *** and hunter\n") || strings.Contains(got, "hunter2") {
				t.Errorf("%q", got)
			}
		})
	}
}
