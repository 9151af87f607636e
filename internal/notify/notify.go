// Package notify calls people: a gate waits for them, or a run has ended or cannot go on by itself.
//
// It promises that a notice has no arguments and no output of tools, no task and no text of a model: what it says comes
// from ids, names of tools and the reasons of the station, on one line, without anything that a terminal acts on. A
// sink is bounded in what it runs at a time and in how long. Who calls has read the log: a notice decides nothing.
package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/gate"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Kind is what a notice is about.
type Kind string

// Kinds of notices.
const (
	Gate      Kind = "gate"
	Reminder  Kind = "reminder"
	Failed    Kind = "failed"
	Completed Kind = "completed"
	Paused    Kind = "paused"
)

// Kinds are the event types that may give a notice.
func Kinds() []events.Kind {
	return []events.Kind{events.GateOpened, events.GateReminded, events.RunFailed, events.RunCompleted, events.RunPaused}
}

// Notice is one call to a person.
type Notice struct {
	Kind    Kind   `json:"kind"`
	Station string `json:"station"`
	Run     string `json:"run"`
	// Gate that waits; empty for other kinds.
	Gate string `json:"gate,omitempty"`
	// To is whom a reminder is for; empty for those who were called for the gate.
	To      string `json:"to,omitempty"`
	Agent   string `json:"agent"`
	Session string `json:"session,omitempty"`
	Project string `json:"project,omitempty"`
	// By is in whose name the run was asked for: a claim.
	By string `json:"by,omitempty"`
	// Text is one line for people.
	Text string `json:"text"`
	// Approvers are named by what is asked at the gate, and Deputies answer in the place of people whom it is for.
	Approvers []string  `json:"approvers,omitempty"`
	Deputies  []InPlace `json:"deputies,omitempty"`
	// Command is what to type next.
	Command string    `json:"command"`
	Time    time.Time `json:"time"`
	// Attended is true where the end of the run comes to somebody anyway: the person whose input it is, or the parent run.
	Attended bool `json:"attended,omitempty"`
}

// Wanted reports whether a notice is for people who follow other runs than their own: gates are, and ends that come to
// no one yet.
func (n Notice) Wanted() bool { return n.AtGate() || !n.Attended }

// AtGate reports whether a gate waits.
func (n Notice) AtGate() bool { return n.Kind == Gate || n.Kind == Reminder }

// Sink takes notices to people.
type Sink interface {
	// Send takes one. It may wait for room until ctx is done and returns ErrBusy then; it does not wait until a person was
	// reached.
	Send(ctx context.Context, n Notice) error
	// Close waits until what was sent is done.
	Close()
}

// ErrBusy means that a sink has no room.
var ErrBusy = errors.New("as many notices as may be are under way")

// Of is the notice that an event of a run gives; ok is false where it gives none: a gate that was answered meanwhile,
// a pause that a person asked for, or the end of a run whose agent goes on in its next one. s is a state of the run
// that has the event.
func Of(s run.State, e events.Event, p events.Payload) (n Notice, ok bool) {
	n = Notice{Station: s.Identity.Station, Run: s.HarnessID, Agent: view.Clip(s.AgentName, events.MaxID), Time: e.Time}
	if c := s.Created; c != nil {
		n.Session, n.Project, n.By = c.Session, c.Project, view.Clip(c.By, events.MaxID)
		n.Attended = c.Attended || c.Parent != ""
	}
	switch d := p.(type) {
	case *events.GateOpenedData:
		g := s.Gate(d.Gate)
		if g == nil || g.Status != run.GatePending || s.Status.Ended() {
			return n, false
		}
		n.Kind, n.Gate, n.Text = Gate, d.Gate, "waits for an answer before "+before(d)
		n.Approvers = gate.Approvers(s, g)
	case *events.GateRemindedData:
		g := s.Gate(d.Gate)
		if g == nil || g.Status != run.GatePending || s.Status.Ended() {
			return n, false
		}
		n.Kind, n.Gate, n.To, n.Approvers = Reminder, d.Gate, view.Clip(d.To, events.MaxID), gate.Approvers(s, g)
		n.Text = "has waited " + view.Span(time.Duration(d.WaitMS)*time.Millisecond) + " for an answer before " + held(s, g)
	case *events.RunCompletedData:
		n.Kind, n.Text = Completed, "is done after "+after(d.Result)
	case *events.RunFailedData:
		if view.HandedOff(d.Result) {
			return n, false // the next run of the agent goes on
		}
		n.Kind, n.Text = Failed, "failed: "+reason(d.FinishReason)+" after "+after(d.Result)
		if view.Stopped(d.Result) {
			n.Text = "was stopped after " + after(d.Result)
		}
	case *events.RunPausedData:
		if byPerson(s, d) {
			return n, false
		}
		n.Kind, n.Text = Paused, "is paused: "+cmp.Or(d.Reason, "no reason given")
	default:
		return n, false
	}
	n.Text = view.Clip(n.Agent+" "+n.Text, maxText)
	return n, true
}

// maxText is the longest text of a notice, in characters.
const maxText = 160

// before is what a gate holds back: a step, or a call by the name of its tool.
func before(d *events.GateOpenedData) string {
	var call struct {
		Tool string `json:"tool"`
	}
	if d.Call == "" || json.Unmarshal(d.Proposal, &call) != nil || call.Tool == "" {
		return "step " + d.Step
	}
	return "a call of " + call.Tool
}

// held is the same of a gate in a state.
func held(s run.State, g *run.Gate) string {
	if c := s.Open[g.CallID]; g.CallID != "" && c != nil {
		return "a call of " + c.Tool
	}
	return "step " + g.StepID
}

func after(r events.Result) string { return view.Span(time.Duration(r.DurationMS) * time.Millisecond) }

// reason is a finish reason in words.
func reason(finish string) string {
	return strings.ReplaceAll(cmp.Or(finish, "no reason given"), "_", " ")
}

// byPerson reports whether a person paused a run, or rejected a gate of it: no one is to be called for that.
func byPerson(s run.State, d *events.RunPausedData) bool {
	if g := s.Gate(d.Gate); g != nil {
		return g.Status != run.GateExpired
	}
	return d.Input != 0
}
