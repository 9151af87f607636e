package events_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// stored is an event as it is in the log and on station.S.run.R.stream.
const stored = `{"specversion":"1.0","id":"000102030405060708090a0b0c0d0e0f","source":"/station/main/planner","type":"dev.inspan.step.ready.v1",` +
	`"subject":"run-1","time":"2025-03-04T05:06:07Z","datacontenttype":"application/json","stationid":"main","runid":"run-1","sequence":4,` +
	`"prevhash":"abababababababababababababababababababababababababababababababab",` +
	`"data":{"event":"step_ready","step_id":"build","agent":"coder","critical":true}}`

// A message of the stream is decoded and switched on by the type of its payload.
func ExampleRead() {
	event, payload, err := events.Read([]byte(stored))
	if err != nil {
		fmt.Println(err)
		return
	}
	switch d := payload.(type) {
	case *events.StepReadyData:
		fmt.Printf("event %d of %s by the %s: step %s, critical %v\n", event.Sequence, event.Run, event.Author(), d.Step, d.Critical)
	default:
		fmt.Println("another event")
	}
	// Output: event 4 of run-1 by the planner: step build, critical true
}

// Decode reads the envelope alone; the payload is decoded where it is wanted.
func ExampleDecode() {
	event, err := events.Decode([]byte(stored))
	if err != nil {
		fmt.Println(err)
		return
	}
	kind, _ := event.Kind() // Decode checked it
	fmt.Println(kind, kind.Family(), event.Time.Format(time.TimeOnly))
	_, err = events.Decode([]byte(`{"type":"dev.inspan.step.ready.v1"}`))
	fmt.Println(errors.Is(err, events.ErrDamaged))
	// Output:
	// step.ready step 05:06:07
	// true
}

// An event type has one author: the only service that may publish it.
func ExampleLookup() {
	w, ok := events.Lookup(events.CallAllowed)
	fmt.Println(ok, w.Author, w.Event, w.Kind.Type())
	// Output: true gatekeeper tool_allowed dev.inspan.call.allowed.v1
}

// Registry lists all event types in the order of a run's life.
func ExampleRegistry() {
	for _, w := range events.Registry()[:3] {
		fmt.Println(w.Kind, "by the", w.Author)
	}
	// Output:
	// run.created by the planner
	// run.forked by the planner
	// run.started by the planner
}

// A type of a newer program is an error that names it.
func ExampleParseType() {
	kind, err := events.ParseType("dev.inspan.run.paused.v1")
	fmt.Println(kind, err)
	_, err = events.ParseType("dev.inspan.run.paused.v2")
	_, unknown := errors.AsType[*events.UnknownTypeError](err)
	fmt.Println(unknown)
	// Output:
	// run.paused <nil>
	// true
}

// With these subjects any NATS client dispatches, watches, steers and approves.
func ExampleTaskSubject() {
	fmt.Println(events.TaskSubject("main"))
	fmt.Println(events.StreamSubject("main", "run-1"))
	fmt.Println(events.ControlSubject("main", "run-1"))
	fmt.Println(events.GateSubject("main", "run-1", "g-1"))
	// Output:
	// station.main.task
	// station.main.run.run-1.stream
	// station.main.run.run-1.control
	// station.main.run.run-1.gate.g-1
}

// The log has a subject for each event type of each run.
func ExampleRunEventSubject() {
	fmt.Println(events.RunEventSubject("main", "run-1", events.StepReady))
	fmt.Println(events.RunEvents("main", "run-1"))
	// Output:
	// station.main.run.run-1.evt.step.ready
	// station.main.run.run-1.evt.>
}

// ParseRunSubject says which run a message is about.
func ExampleParseRunSubject() {
	sub, ok := events.ParseRunSubject("station.main.run.run-1.gate.g-1.anna")
	fmt.Println(ok, sub.Station, sub.Run, sub.Rest)
	// Output: true main run-1 [gate g-1 anna]
}

// Ids are one token of a subject.
func ExampleCheckID() {
	fmt.Println(events.ValidID("run-1"), events.ValidID("run.1"))
	_, bad := errors.AsType[*events.IDError](events.CheckID("run", "run.1"))
	fmt.Println(bad)
	// Output:
	// true false
	// true
}

// Each event names the hash of the one before it, over the very bytes that are stored.
func ExampleHashOf() {
	fmt.Println(events.HashOf([]byte(stored))[:12])
	// Output: 5d5c76b00eed
}

// Refs lists the objects that an event needs to be whole, as for a copy of a log.
func ExampleRefs() {
	d := &events.CallFinishedData{OutputRef: &events.Ref{SHA256: "e3b0c442", Size: 70_000, Type: "output"}}
	for _, ref := range events.Refs(d) {
		fmt.Println(ref.Type, ref.Size, ref.SHA256)
	}
	// Output: output 70000 e3b0c442
}

// AnswerOf reads who answered a gate, whatever the answer was.
func ExampleAnswerOf() {
	d := &events.GateRejectedData{GateAnswer: events.GateAnswer{Gate: "g-1", By: "anna", Reason: "not on a Friday"}}
	a, ok := events.AnswerOf(d)
	fmt.Println(ok, a.Gate, a.By, a.Reason)
	// Output: true g-1 anna not on a Friday
}

// Arguments that a person edits are approved in one form, and by a hash of their own.
func ExampleEditedInput() {
	input, err := events.EditedInput(json.RawMessage(`{ "command": "make test" }`))
	fmt.Println(string(input), err)
	_, err = events.EditedInput(json.RawMessage(`["make"]`))
	fmt.Println(errors.Is(err, events.ErrEdited))
	fmt.Println(len(events.EditedHash("proposal", input)))
	// Output:
	// {"command":"make test"} <nil>
	// true
	// 64
}

// Of the answers of hooks the first block decides, else the first interrupt.
func ExampleDecisive() {
	a, ok := events.Decisive([]events.HookAnswer{{Answer: events.HookContinue}, {Answer: events.HookInterrupt}, {Answer: events.HookBlock}})
	fmt.Println(ok, a.Answer)
	_, ok = events.Decisive([]events.HookAnswer{{Answer: events.HookContinue}})
	fmt.Println(ok)
	// Output:
	// true block
	// false
}

// Amounts of money are whole millionths of a US dollar.
func ExampleParseUSD() {
	m, err := events.ParseUSD("2.5")
	fmt.Println(int64(m), m, err)
	// Output: 2500000 $2.50 <nil>
}

// DefaultOptions are in force where neither the task nor the agent says otherwise.
func ExampleDefaultOptions() {
	o := events.DefaultOptions()
	fmt.Println(o.Autonomy, o.MaxToolCalls, time.Duration(o.TimeoutMS)*time.Millisecond)
	// Output: 3 100 30m0s
}

// Plain shows JSON to people without the escapes for HTML.
func ExamplePlain() {
	b, _ := json.Marshal("a < b && c") // a string is always JSON
	fmt.Println(string(b), string(events.Plain(b)))
	// Output: "a \u003c b \u0026\u0026 c" "a < b && c"
}
