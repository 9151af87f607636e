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
	// inputs counts what was published: it is the position of the last one in the input stream.
	inputs  uint64
	sent    map[string]bool
	met     map[string]bool
	left    map[string]bool
	answers map[uint64]sentAnswer
	tasks   map[uint64]string
	resumes map[string]uint64
}

// act is something somebody means to do.
type act struct{ subject, body, what string }

// sentAnswer is what somebody answered.
type sentAnswer struct{ run, gate, decision, hash string }

func newPerson(w *world) *person {
	return &person{w: w, sent: map[string]bool{}, met: map[string]bool{}, left: map[string]bool{}, answers: map[uint64]sentAnswer{},
		tasks: map[uint64]string{}, resumes: map[string]uint64{}}
}

// next returns one thing that somebody could do now, or nil.
func (h *person) next() func() {
	h.look()
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
	return len(h.acts) == 0
}

// look finds out what there is to do.
func (h *person) look() {
	rude := h.w.play.Scene.Rude && !h.w.peace
	for _, r := range h.w.play.Scene.Runs {
		if !h.sent[r.ID] {
			h.sent[r.ID] = true
			task := act{events.TaskSubject(station), string(r.task()), "task " + r.ID}
			h.acts = append(h.acts, task)
			if rude {
				h.acts = append(h.acts, task, act{events.TaskSubject(station), fmt.Sprintf(`{"id":%q,"agent":"agent-%s","task":"another"}`, r.ID, r.ID), "another task " + r.ID})
			}
		}
		s := h.w.state[r.ID]
		if s.Status.Ended() {
			continue
		}
		for _, g := range s.Waiting() {
			h.gate(r.ID, g, rude)
		}
		h.steer(r.ID, s, rude)
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
		if h.w.peace && !h.left[key] && len(h.acts) == 0 && h.w.st.Pending(events.Gatekeeper) == 0 {
			h.say(runID, g.ID, "approve", "") // whatever was said before was refused
		}
		return
	}
	h.met[key] = true
	if h.w.play.Inject == nil && h.w.rng.IntN(100) < h.w.play.Scene.Leave {
		h.left[key] = true
		return
	}
	if !rude {
		h.say(runID, g.ID, "approve", "")
		return
	}
	decisions, hashes := []string{"approve", "reject", "approve"}, []string{"", g.Hash, fmt.Sprintf("%064d", 7)}
	for range 1 + h.w.rng.IntN(3) {
		h.say(runID, g.ID, decisions[h.w.rng.IntN(3)], hashes[h.w.rng.IntN(3)])
	}
}

func (h *person) say(runID, gate, decision, hash string) {
	b, err := json.Marshal(events.Answer{Decision: decision, By: "somebody", ProposalHash: hash})
	if err != nil {
		panic(err) // a fault of the simulation itself
	}
	h.acts = append(h.acts, act{events.GateSubject(station, runID, gate), string(b), decision + " " + gate + " of " + runID})
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
	case !ok:
		var t events.Task
		if json.Unmarshal([]byte(a.body), &t) == nil {
			h.tasks[h.inputs] = t.ID
		}
	case sub.Rest[0] == "gate":
		var d events.Answer
		if json.Unmarshal([]byte(a.body), &d) == nil {
			h.answers[h.inputs] = sentAnswer{sub.Run, sub.Rest[1], d.Decision, d.ProposalHash}
		}
	}
}
