// Package executortest draws the requests of executors for tests of adapters.
//
// Promises: each request is made by the executor's own code from a log that was drawn by runtest.Moves, so that it has
// whatever a log can hold: calls that were refused or failed, compactions, results and messages that stand in objects,
// and answers of any provider. The package is for tests.
package executortest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/services/executor"
)

// Foreign is in the thoughts of every answer whose provider is not the one that Draw was given; no request of that
// provider may hold it.
const Foreign = "FOREIGN-THOUGHT"

// blobs keeps objects in memory.
type blobs map[string][]byte

var _ kernel.Blobs = blobs{}

// Put implements kernel.Blobs.
func (b blobs) Put(_ context.Context, kind string, data []byte) (events.Ref, error) {
	sum := sha256.Sum256(data)
	ref := events.Ref{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(data)), Type: kind}
	b[ref.SHA256] = data
	return ref, nil
}

// Get implements kernel.Blobs.
func (b blobs) Get(_ context.Context, ref events.Ref) ([]byte, error) {
	data, ok := b[ref.SHA256]
	if !ok {
		return nil, fmt.Errorf("object %s: %w", ref.SHA256, kernel.ErrNotFound)
	}
	return data, nil
}

// Draw walks through legal histories until a step is owed a turn, and returns the request for it, made once from the
// state and once from the state as it was stored and read again: both are equal. raw returns provider's own form of a
// message.
func Draw(t *rapid.T, provider string, raw func(text string, calls []llm.Call) json.RawMessage) llm.Request {
	b, objects := runtest.New("demo", "r"), blobs{}
	created := runtest.Created()
	a := created.Agents["worker"]
	a.ContextWindow = rapid.SampledFrom([]int{0, 1000, 100_000}).Draw(t, "window")
	created.Agents["worker"] = a
	b.Append(created, runtest.Started(), runtest.Plan(runtest.Step("a"), runtest.Step("b")), runtest.Ready("a"),
		runtest.Allowed("a"))
	states := []run.State{b.State()} // in which a turn is owed
	for range rapid.IntRange(0, 60).Draw(t, "facts") {
		moves := runtest.Moves(b.State())
		p := moves[rapid.IntRange(0, len(moves)-1).Draw(t, "move")]
		switch d := p.(type) {
		case *events.RunCompletedData, *events.RunFailedData, *events.StepFailedData, *events.RunPausedData:
			continue // there would be no turn after it
		case *events.TurnFinishedData:
			p = turnBy(t, *d, provider, raw, objects)
		case *events.CallFinishedData:
			done := *d
			done.Output = rapid.SampledFrom([]string{"", "ok", "\x00 \uFFFD", strings.Repeat("long ", 1000)}).Draw(t, "output")
			for range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "images") {
				ref, _ := objects.Put(context.Background(), "image", []byte("\x89PNG"))
				done.Images = append(done.Images, events.Image{Ref: ref, MediaType: "image/png", Width: 8, Height: 8})
			}
			p = &done
		}
		b.Append(p)
		if s := b.State(); len(owed(s)) > 0 {
			states = append(states, s)
		}
	}
	for i := len(states) - 1; ; i-- {
		if req, ok := request(t, objects, states[i]); ok || i == 0 {
			return req
		}
	}
}

// request is that of the first step which is owed a turn; ok is false where the loop ends the step, or waits, instead.
func request(t *rapid.T, objects blobs, s run.State) (llm.Request, bool) {
	step, later := owed(s)[0], s.UpdatedAt.Add(time.Hour)
	req, err := executor.Request(context.Background(), objects, none, s, step, later)
	if err != nil {
		return req, false
	}
	doc, err := run.Codec{}.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	again, err := run.Codec{}.Decode(doc)
	if err != nil {
		t.Fatal(err)
	}
	second, err := executor.Request(context.Background(), objects, none, again, step, later)
	if err != nil || !reflect.DeepEqual(req, second) {
		t.Fatalf("the stored state gives another request (%v):\n%+v\n%+v", err, req, second)
	}
	return req, true
}

func none(events.Agent) *tool.Registry { return new(tool.Registry) }

func owed(s run.State) []string {
	var steps []string
	if s.Plan != nil {
		for _, st := range s.Plan.Steps {
			if st.Owed > 0 {
				steps = append(steps, st.ID)
			}
		}
	}
	return steps
}

// turnBy makes a turn one of the provider or of another, with its message in the event or beside it.
func turnBy(t *rapid.T, d events.TurnFinishedData, provider string, raw func(string, []llm.Call) json.RawMessage,
	objects blobs) *events.TurnFinishedData {
	var calls []llm.Call
	for _, c := range d.Calls {
		calls = append(calls, llm.Call{ID: c.ProviderID, Name: c.Tool, Input: c.Input})
	}
	if d.Provider = provider; rapid.Bool().Draw(t, "foreign") {
		d.Provider, d.Raw = "other", json.RawMessage(`[{"type":"thinking","thinking":"`+Foreign+`","signature":"c2ln"}]`)
	} else {
		d.Raw = raw(d.Text, calls)
	}
	if rapid.Bool().Draw(t, "large") {
		ref, _ := objects.Put(context.Background(), "message", d.Raw)
		d.Raw, d.RawRef = nil, &ref
		whole, _ := objects.Put(context.Background(), "text", []byte(d.Text+" in full"))
		d.TextRef = &whole
	}
	if len(d.Calls) > 0 && rapid.Bool().Draw(t, "large input") {
		d.Calls = append([]events.RequestedCall(nil), d.Calls...)
		ref, _ := objects.Put(context.Background(), "input", d.Calls[0].Input)
		d.Calls[0].Input, d.Calls[0].InputRef = nil, &ref
	}
	return &d
}
