package events

import (
	"fmt"
	"strings"
)

// MaxID is the longest id of a station, run, gate, step, call or agent.
const MaxID = 64

// ValidID reports whether s is a single subject token [A-Za-z0-9_-]{1,64}.
func ValidID(s string) bool {
	if len(s) == 0 || len(s) > MaxID {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// IDError is returned for an id that cannot be part of a subject.
type IDError struct{ What, ID string }

func (e *IDError) Error() string {
	return fmt.Sprintf("%s %q is not an id: want 1 to %d characters of A-Z a-z 0-9 _ and -", e.What, shorten(e.ID), MaxID)
}

// CheckID returns an *IDError naming what the id is for.
func CheckID(what, id string) error {
	if ValidID(id) {
		return nil
	}
	return &IDError{What: what, ID: id}
}

func shorten(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}

// Subjects of a station. The ids given must be valid; see docs/subjects.md for the whole table.

// RunAggregate is the name of the aggregate that a run is.
const RunAggregate = "run"

// CheckAggregate returns an error for a name that no aggregate can have: want 1 to 20 lower-case letters, and none of
// the other tokens that stand in its place in the subjects of a station.
func CheckAggregate(name string) error {
	if len(name) == 0 || len(name) > 20 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") != "" {
		return fmt.Errorf("aggregate %q: want 1 to 20 lower-case letters", shorten(name))
	}
	switch name {
	case "task", "timer", "due", "dead", "letter", "hook", "hooked", "tool", "toolreply", "toolcontrol", "tools",
		"toolspec":
		return fmt.Errorf("aggregate %q: subjects of a station have another meaning of that name", name)
	}
	return nil
}

// EventSubject is where an event of an aggregate is stored.
func EventSubject(station, aggregate, id string, k Kind) string {
	return "station." + station + "." + aggregate + "." + id + ".evt." + string(k)
}

// AggregateEvents is the filter for all events of one aggregate. It is also the one string every append names as its
// expected-last-sequence subject: all writers must use the same.
func AggregateEvents(station, aggregate, id string) string {
	return "station." + station + "." + aggregate + "." + id + ".evt.>"
}

// KindEvents is the filter for the events of one kind of all aggregates of a name.
func KindEvents(station, aggregate string, k Kind) string {
	return EventSubject(station, aggregate, "*", k)
}

// RunEventSubject is where an event of a run is stored.
func RunEventSubject(station, run string, k Kind) string {
	return EventSubject(station, RunAggregate, run, k)
}

// RunEvents is AggregateEvents of a run.
func RunEvents(station, run string) string { return AggregateEvents(station, RunAggregate, run) }

// RunEventsOfKind is the filter for the events of one kind of all runs.
func RunEventsOfKind(station string, k Kind) string { return KindEvents(station, RunAggregate, k) }

// TaskSubject is where users dispatch.
func TaskSubject(station string) string { return "station." + station + ".task" }

// ControlSubject is where users steer a run.
func ControlSubject(station, run string) string {
	return "station." + station + ".run." + run + ".control"
}

// SessionSubject is where users steer a session.
func SessionSubject(station, session string) string {
	return "station." + station + ".session." + session + ".control"
}

// ScheduleSubject is where users make and steer a schedule.
func ScheduleSubject(station, schedule string) string {
	return "station." + station + ".schedule." + schedule + ".control"
}

// WorkSubject is where users make and steer a work item.
func WorkSubject(station, work string) string {
	return "station." + station + ".work." + work + ".control"
}

// AgentSubject is where users register an address and send to it; id is its token, see ParseAddress.
func AgentSubject(station, id string) string {
	return "station." + station + ".agent." + id + ".control"
}

// HarnessSubject is where a program asks to record what its harness does.
func HarnessSubject(station, harness string) string {
	return "station." + station + ".harness." + harness + ".control"
}

// SweepSubject is where toolrunners hear that the files of a deleted session may go.
func SweepSubject(station, session string) string {
	return "station." + station + ".session." + session + ".sweep"
}

// ParseSession takes a subject below station.{s}.session.{session} apart; verb is control or sweep.
func ParseSession(subject string) (session, verb string, ok bool) {
	t := strings.Split(subject, ".")
	if len(t) != 5 || t[0] != "station" || t[2] != "session" || !ValidID(t[1]) || !ValidID(t[3]) || t[4] != "control" &&
		t[4] != "sweep" {
		return "", "", false
	}
	return t[3], t[4], true
}

// GateSubject is where people answer a gate.
func GateSubject(station, run, gate string) string {
	return "station." + station + ".run." + run + ".gate." + gate
}

// HookSubject is where services ask the hook of a name.
func HookSubject(station, name string) string { return "station." + station + ".hook." + name }

// HookedSubject is where the answer to one question of a service goes; token cannot be guessed. It is no inbox: who may
// answer questions can say nothing else into a service's ear.
func HookedSubject(station string, role Service, token string) string {
	return "station." + station + ".hooked." + string(role) + "." + token
}

// ToolSubject is where toolrunners ask for calls of a tool that is served over NATS. Its servers are one queue group.
func ToolSubject(station, name string) string { return "station." + station + ".tool." + name }

// ToolReplySubject is where a server answers one request of a toolrunner; token cannot be guessed. It is no inbox: a
// tool server can publish nothing else that a service receives.
func ToolReplySubject(station, token string) string {
	return "station." + station + ".toolreply." + token
}

// ToolControlSubject is where the toolrunner of one request lets the server begin, or cancels.
func ToolControlSubject(station, token string) string {
	return "station." + station + ".toolcontrol." + token
}

// ToolsSubject is where anyone who may watch asks all tool servers what they serve, ToolSpecSubject where they answer.
func ToolsSubject(station string) string { return "station." + station + ".tools" }

// ToolSpecSubject is where the answers to one such question go.
func ToolSpecSubject(station, token string) string {
	return "station." + station + ".toolspec." + token
}

// AggregateStream is where the server republishes every stored event of an aggregate.
func AggregateStream(station, aggregate, id string) string {
	return "station." + station + "." + aggregate + "." + id + ".stream"
}

// StreamSubject is where the server republishes every stored event of a run.
func StreamSubject(station, run string) string {
	return AggregateStream(station, RunAggregate, run)
}

// LiveSubject carries tokens and tool output as they come; nothing that is said here is stored.
func LiveSubject(station, run string) string { return "station." + station + ".run." + run + ".live" }

// RetainedSubject carries the same messages where the server is to keep them for a while, which publishes them again on
// LiveSubject.
func RetainedSubject(station, run string) string {
	return "station." + station + ".run." + run + ".kept"
}

// SoFarSubject is where a watcher asks what was said live so far; whoever carries out a turn or a call of the run
// answers.
func SoFarSubject(station, run string) string { return "station." + station + ".run." + run + ".sofar" }

// DeadSubject is where a role puts input that it refused.
func DeadSubject(station string, by Service) string {
	return "station." + station + ".dead." + string(by)
}

// TimerSubject holds a schedule; DueSubject is where it fires. A name is {family}.{id}, for example "turn.build".
func TimerSubject(station, run, name string) string {
	return "station." + station + ".timer." + run + "." + name
}

// DueSubject is where the timer of that name fires.
func DueSubject(station, run, name string) string {
	return "station." + station + ".due." + run + "." + name
}

// RunSubject is a parsed subject below station.{s}.run.{r}.
type RunSubject struct {
	Station, Run string
	// Rest is what follows the run id, for example "evt.step.ready" or "gate.g-1.anna".
	Rest []string
}

// ParseRunSubject takes a subject apart. ok is false for anything that is not below station.{s}.run.{r} with valid ids,
// or has an empty token or a wildcard in the rest.
func ParseRunSubject(subject string) (p RunSubject, ok bool) {
	a, ok := ParseAggregateSubject(subject)
	if !ok || a.Aggregate != RunAggregate {
		return RunSubject{}, false
	}
	return RunSubject{Station: a.Station, Run: a.ID, Rest: a.Rest}, true
}

// AggregateSubject is a parsed subject below station.{s}.{aggregate}.{id}.
type AggregateSubject struct {
	Station, Aggregate, ID string
	// Rest is what follows the id.
	Rest []string
}

// ParseAggregateSubject is ParseRunSubject for any aggregate. It does not know which names are those of aggregates.
func ParseAggregateSubject(subject string) (p AggregateSubject, ok bool) {
	t := strings.Split(subject, ".")
	if len(t) < 5 || t[0] != "station" || !ValidID(t[1]) || !ValidID(t[2]) || !ValidID(t[3]) {
		return AggregateSubject{}, false
	}
	for _, rest := range t[4:] {
		if rest == "" || strings.ContainsAny(rest, "*> \t\r\n\x00") {
			return AggregateSubject{}, false
		}
	}
	return AggregateSubject{Station: t[1], Aggregate: t[2], ID: t[3], Rest: t[4:]}, true
}

// ParseDue takes a timer's firing apart: station.{s}.due.{r}.{family}.{id}.
func ParseDue(subject string) (run, family, id string, ok bool) {
	if !strings.Contains(subject, ".due.") { // hardly any message is one
		return "", "", "", false
	}
	t := strings.Split(subject, ".")
	if len(t) != 6 || t[0] != "station" || t[2] != "due" || !ValidID(t[1]) || !ValidID(t[3]) || !ValidID(t[4]) ||
		!ValidID(t[5]) {
		return "", "", "", false
	}
	return t[3], t[4], t[5], true
}
