package sim

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// person is everybody outside: who sends tasks, answers gates and steers runs.
type person struct {
	w    *world
	acts []act
	// urgent is what somebody does before anything else happens.
	urgent []act
	// inputs counts what was published: it is the position of the last one in the input stream.
	inputs  uint64
	sent    map[string]bool
	met     map[string]bool
	left    map[string]bool
	answers map[uint64]sentAnswer
	tasks   map[uint64]string
	resumes map[string]uint64
	// wishes are what was asked of the work item, by its position in the input stream.
	wishes map[uint64]string
	// mails are what was asked of the agent, by its position in the input stream.
	mails map[uint64]string
	// later is what somebody means to do at a time; tries counts the tasks that were sent again, by run.
	later []delayed
	tries map[string]int
	// cuts counts the answers of a run that somebody interrupted.
	cuts map[string]int
}

// act is something somebody means to do.
type act struct{ subject, body, what string }

// sentAnswer is what somebody answered.
type sentAnswer struct{ run, gate, decision, hash, by, edited string }

func newPerson(w *world) *person {
	return &person{w: w, sent: map[string]bool{}, met: map[string]bool{}, left: map[string]bool{}, answers: map[uint64]sentAnswer{},
		tasks: map[uint64]string{}, wishes: map[uint64]string{}, mails: map[uint64]string{}, resumes: map[string]uint64{}, tries: map[string]int{}, cuts: map[string]int{}}
}

// next returns one thing that somebody could do now, or nil.
func (h *person) next() func() {
	h.look()
	if len(h.urgent) > 0 {
		a := h.urgent[0]
		return func() {
			h.urgent = h.urgent[1:]
			h.publish(a)
		}
	}
	if len(h.acts) == 0 {
		return nil
	}
	i := 0
	if h.w.play.Inject == nil {
		i = h.w.rng.IntN(len(h.acts))
	}
	a := h.acts[i]
	return func() {
		h.acts = append(append([]act{}, h.acts[:i]...), h.acts[i+1:]...)
		h.publish(a)
	}
}

// content reports whether there is nothing more that anybody means to do.
func (h *person) content() bool {
	h.look()
	return len(h.urgent)+len(h.acts)+len(h.later) == 0
}

// look finds out what there is to do.
func (h *person) look() {
	rude := h.w.play.Scene.Rude && !h.w.peace
	h.due()
	h.wants()
	h.writes()
	for _, r := range h.w.play.Scene.Runs {
		if !r.Kid && !r.OfItem && !r.OfAgent && !h.sent[r.ID] {
			h.sent[r.ID] = true
			task := act{events.TaskSubject(station), string(r.task()), "task " + r.ID}
			h.acts = append(h.acts, task)
			if rude {
				h.acts = append(h.acts, task, act{events.TaskSubject(station), fmt.Sprintf(`{"id":%q,"agent":"agent-%s","task":%q}`, r.ID, r.ID, anotherTask), "another task " + r.ID})
			}
		}
		h.again(r)
		s := h.w.state[r.ID]
		if s.Status.Ended() {
			continue
		}
		for _, g := range s.Waiting() {
			h.gate(r.ID, g, rude)
		}
		h.signal(r.ID, s)
		h.steer(r.ID, s, rude)
		h.stopsWithKids(r.ID)
	}
}

// steer pauses, adjusts and stops where the users are rude, and resumes what stands still.
func (h *person) steer(runID string, s run.State, rude bool) {
	if rude && s.Status == events.Running && h.w.rng.IntN(400) == 0 {
		body := []string{`{"action":"pause"}`, `{"action":"autonomy","level":2}`, `{"action":"autonomy","level":5}`, `{"action":"stop"}`,
			`{"action":"resume"}`, `rubbish`}[h.w.rng.IntN(6)]
		h.acts = append(h.acts, act{events.ControlSubject(station, runID), body, body + " " + runID})
	}
	if s.Status == events.Paused && h.resumes[runID] != s.Sequence {
		h.resumes[runID] = s.Sequence
		h.acts = append(h.acts, act{events.ControlSubject(station, runID), `{"action":"resume"}`, "resume " + runID})
	}
}

// gate decides how a gate is answered, once.
func (h *person) gate(runID string, g *run.Gate, rude bool) {
	key := runID + "/" + g.ID
	if h.met[key] {
		if h.w.peace && !h.left[key] && len(h.acts)+len(h.later) == 0 && h.w.st.Pending(events.Gatekeeper) == 0 {
			h.insist(runID, g)
		}
		return
	}
	h.met[key] = true
	if h.w.play.Inject == nil && h.w.rng.IntN(100) < h.w.play.Scene.Leave {
		h.left[key] = true
		return
	}
	if h.escalates(runID, g) {
		return
	}
	if !rude {
		h.polite(runID, g)
		return
	}
	h.rude(runID, g)
}

func (h *person) say(runID string, g *run.Gate, r reply) {
	b, err := json.Marshal(events.Answer{Decision: r.decision, By: "somebody", ProposalHash: r.hash, EditedInput: json.RawMessage(r.edited)})
	if err != nil {
		panic(err) // a fault of the simulation itself
	}
	subject, what := events.GateSubject(station, runID, g.ID), r.decision+" "+g.ID+" of "+runID
	if r.by != "" {
		subject, what = subject+"."+r.by, what+" by "+r.by
	}
	if r.edited != "" {
		what += " with " + r.edited
	}
	h.acts = append(h.acts, act{subject, string(b), what})
}

func (h *person) publish(a act) {
	if err := h.w.st.Publish(context.Background(), a.subject, []byte(a.body), nil); err != nil {
		h.w.audit.breaks("publish on %s: %v", a.subject, err)
		return
	}
	h.inputs++
	h.w.tale.line("person", fmt.Sprintf("%s (input %d)", a.what, h.inputs))
	sub, ok := events.ParseRunSubject(a.subject)
	switch {
	case a.subject == events.WorkSubject(station, theItem):
		h.wishes[h.inputs] = a.what
	case a.subject == events.AgentSubject(station, theBox):
		h.mails[h.inputs] = a.what
	case !ok:
		var t events.Task
		if json.Unmarshal([]byte(a.body), &t) == nil {
			h.tasks[h.inputs] = t.ID
		}
	case sub.Rest[0] == "gate":
		var d events.Answer
		if json.Unmarshal([]byte(a.body), &d) == nil {
			said := sentAnswer{run: sub.Run, gate: sub.Rest[1], decision: d.Decision, hash: d.ProposalHash, edited: string(d.EditedInput)}
			if len(sub.Rest) > 2 {
				said.by = sub.Rest[2]
			}
			h.answers[h.inputs] = said
		}
	}
}
