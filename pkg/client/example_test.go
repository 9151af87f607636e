package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// The examples talk to a real station in this process whose agent "clerk" answers from a script.
const (
	clerk  = "---\nname: clerk\ndescription: Says what it was told to\nmodel: scripted/clerk\ntools: [read]\nsandbox: {mode: host, network: true}\n---\nDo the task.\n"
	script = "turns:\n  - when: {turn: 1}\n    text: The letter is written.\n    usage: {input: 10, output: 5}\n"
)

// exampleStation starts a station and returns its address; stop ends it.
func exampleStation() (url string, stop func()) {
	dir, err := os.MkdirTemp("", "inspan-example-")
	if err != nil {
		panic(err)
	}
	for name, text := range map[string]string{"agents/clerk.prompt": clerk, "scripts/clerk.yaml": script} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			panic(err)
		}
	}
	st, err := station.Up(context.Background(), station.Config{Listen: "127.0.0.1:0", StoreDir: filepath.Join(dir, "store"), AgentsDir: filepath.Join(dir, "agents"),
		ScriptsDir: filepath.Join(dir, "scripts"), Sandbox: "host", LazySync: true, Log: zerolog.Nop()})
	if err != nil {
		panic(err)
	}
	return st.URL(), func() {
		if err := errors.Join(st.Close(context.Background()), os.RemoveAll(dir)); err != nil {
			panic(err)
		}
	}
}

// How do I let an agent do something and read its result?
func Example() {
	url, stop := exampleStation()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	c, err := client.Connect(ctx, client.Config{URL: url})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	id, err := c.Start(ctx, events.Task{Agent: "clerk", Task: "Write the letter."})
	if err != nil {
		fmt.Println(err)
		return
	}
	var last run.State
	for item, err := range c.Watch(ctx, id, 0) {
		if err != nil {
			fmt.Println(err)
			return
		}
		last = item.State
	}
	fmt.Println(last.Status, last.Result.Output)
	// Output: completed The letter is written.
}

// How do I hand a task over without waiting, and make sure that it is done only once?
func ExampleClient_Dispatch() {
	c, ctx, done := exampleClient()
	defer done()
	for range 2 { // the second one changes nothing
		id, err := c.Dispatch(ctx, events.Task{ID: "letter-7", Agent: "clerk", Task: "Write the letter."})
		fmt.Println(id, err)
	}
	// Output:
	// letter-7 <nil>
	// letter-7 <nil>
}

// What do I get for a task that the station does not take?
func ExampleClient_Start() {
	c, ctx, done := exampleClient()
	defer done()
	_, err := c.Start(ctx, events.Task{Agent: "clark", Task: "Write the letter."})
	if refused, ok := errors.AsType[*client.RefusedError](err); ok {
		fmt.Println(refused.Code)
		fmt.Println(refused.Reason)
		fmt.Println(refused.Hint)
	}
	// Output:
	// unknown_agent
	// agent "clark" is not registered
	// did you mean clerk? registered: clerk
}

// How do I see every event of a run, live, without missing one?
func ExampleClient_Watch() {
	c, ctx, done := exampleClient()
	defer done()
	id, err := c.Start(ctx, events.Task{Agent: "clerk", Task: "Write the letter."})
	if err != nil {
		fmt.Println(err)
		return
	}
	for item, err := range c.Watch(ctx, id, 0) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if kind := item.Payload.Kind(); kind != events.CheckpointSaved { // its place depends on the clock
			fmt.Println(kind)
		}
	}
	// Output:
	// run.created
	// run.started
	// plan.made
	// step.ready
	// step.allowed
	// turn.finished
	// step.finished
	// plan.completed
	// run.completed
}

// How do I answer gates from a program?
func ExampleGates_Approve() {
	c, ctx, done := exampleClient()
	defer done()
	careful := 1 // a person is asked before every step
	id, err := c.Start(ctx, events.Task{Agent: "clerk", Task: "Write the letter.", Autonomy: &careful})
	if err != nil {
		fmt.Println(err)
		return
	}
	for item, err := range c.Watch(ctx, id, 0) {
		if err != nil {
			fmt.Println(err)
			return
		}
		gate, ok := item.Payload.(*events.GateOpenedData)
		if !ok {
			continue
		}
		fmt.Println("may it?", gate.Reason)
		if _, err := c.Gates().Approve(ctx, client.Decision{Run: id, Gate: gate.Gate, By: "anna", Hash: gate.ProposalHash}); err != nil {
			fmt.Println(err)
			return
		}
	}
	s, err := c.State(ctx, id)
	fmt.Println(s.Status, s.Gates[0].By, err)
	// Output:
	// may it? autonomy 1 asks before every step
	// completed anna <nil>
}

// How do I stop a run, and what does a run say that cannot be stopped any more?
func ExampleClient_Control() {
	c, ctx, done := exampleClient()
	defer done()
	careful := 1 // it waits at its gate
	id, err := c.Start(ctx, events.Task{Agent: "clerk", Task: "Write the letter.", Autonomy: &careful})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := c.Control(ctx, id, events.Control{Action: "stop", By: "anna", Reason: "not needed"})
	fmt.Println(s.Status, s.Result.FinishReason, err)
	_, err = c.Control(ctx, id, events.Control{Action: "pause"})
	refused, ok := errors.AsType[*client.RefusedError](err)
	fmt.Println(ok, refused.Code)
	// Output:
	// failed stopped <nil>
	// true bad_move
}

// How do I look a run up?
func ExampleRuns_Get() {
	c, ctx, done := exampleClient()
	defer done()
	_, err := c.Runs().Get(ctx, "nobody")
	fmt.Println(errors.Is(err, client.ErrNotFound))
	// Output: true
}

func exampleClient() (c *client.Client, ctx context.Context, done func()) {
	url, stop := exampleStation()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	c, err := client.Connect(ctx, client.Config{URL: url})
	if err != nil {
		panic(err)
	}
	return c, ctx, func() { c.Close(); cancel(); stop() }
}
