package e2e

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestPROP3(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	ids := map[string]string{}
	n := 0
	t.Run("PROP-3 LIFE-1 Feature: agent-harnesses, Property 3: runs of random agents have distinct ids and the right name, and are listed", func(t *testing.T) {
		w := w.on(t)
		rapid.Check(t, func(rt *rapid.T) {
			name := rapid.StringMatching(`[a-zA-Z0-9_-]{1,64}`).Draw(rt, "agent")
			n++
			id := fmt.Sprintf("p3-%d", n)
			w.agent(events.Agent{Name: name, Model: "scripted/none"}, "")
			w.task(events.Task{ID: id, Agent: name, Task: "x"})
			ids[id] = name
		})
		for id, name := range ids {
			s := w.ended(id) // its model has no script; that it was created is what counts
			first, p, err := events.Read(w.events(id)[0].Bytes)
			if err != nil {
				t.Fatal(err)
			}
			created, ok := p.(*events.RunCreatedData)
			if !ok || created.To != events.Created || first.Run != id || s.AgentName != name || s.HarnessID != id {
				t.Errorf("%s: %+v", id, s)
			}
			w.row(id, func(i run.Info) bool { return i.AgentName == name && i.HarnessID == id })
		}
		if len(ids) < 100 {
			t.Errorf("%d runs", len(ids))
		}
	})
}
