// Package runtest makes sound histories of runs for tests.
//
// Promises: what a Builder says is chained, dated and numbered as the Ledger would do it, and folds. The same calls
// give the same bytes. Moves lists what may be said next, so that a random walk over it is a random legal history.
// The package is for tests of this module and of those who read the log; nothing in a service imports it.
package runtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Start is the time of the first event of a Builder; each later one comes one second after the one before.
var Start = time.Date(2025, 3, 4, 5, 6, 7, 0, time.UTC)

// Builder says the events of one run. It is not safe for concurrent use.
type Builder struct {
	station, run string
	state        run.State
	stored       [][]byte
}

// New returns a builder for a run that does not exist yet.
func New(station, runID string) *Builder { return &Builder{station: station, run: runID} }

// Append appends events with the payloads given and returns their stored bytes. It panics with the fold's words where
// one does not fit: a test that wants that uses Try or Bad.
func (b *Builder) Append(payloads ...events.Payload) [][]byte {
	from := len(b.stored)
	for _, p := range payloads {
		if _, err := b.Try(p); err != nil {
			panic(fmt.Sprintf("runtest: %v", err))
		}
	}
	return b.stored[from:len(b.stored):len(b.stored)]
}

// AppendAt is Say for events of another time.
func (b *Builder) AppendAt(at time.Time, payloads ...events.Payload) {
	for _, p := range payloads {
		stored := b.Bad(p, func(f *events.Event) { f.Time = at })
		next, err := b.state.Apply(stored)
		if err != nil {
			panic(fmt.Sprintf("runtest: %v", err))
		}
		b.state, b.stored = next, append(b.stored, stored)
	}
}

// Try is Say for one payload; where it does not fit it returns the bytes and the error, and says nothing.
func (b *Builder) Try(p events.Payload) ([]byte, error) {
	stored := b.Bad(p, func(*events.Event) {})
	next, err := b.state.Apply(stored)
	if err != nil {
		return stored, err
	}
	b.state, b.stored = next, append(b.stored, stored)
	return stored, nil
}

// Bad returns the bytes of the next event after spoil had its way with it. Nothing is said.
func (b *Builder) Bad(p events.Payload, spoil func(*events.Event)) []byte {
	word, ok := events.Lookup(p.Kind())
	if !ok {
		panic(fmt.Sprintf("runtest: %q is not a kind", p.Kind()))
	}
	data, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("runtest: %v", err))
	}
	n := b.state.Sequence + 1
	f := events.Event{
		SpecVersion: "1.0", ID: fmt.Sprintf("%032x", n), Source: events.Source(b.station, word.Author),
		Type: p.Kind().Type(), Subject: b.run, Time: Start.Add(time.Duration(n-1) * time.Second),
		ContentType: "application/json", Sequence: n, PrevHash: b.state.Hash, Data: data,
		Identity: events.Identity{Station: b.station, Run: b.run, StationRun: b.station + "-" + b.run},
	}
	if b.state.Created != nil {
		f.AgentID, f.AgentName = b.state.AgentName, b.state.AgentName
	} else if c, ok := p.(*events.RunCreatedData); ok {
		f.AgentID, f.AgentName = c.Agent, c.Agent
	}
	spoil(&f)
	stored, err := f.Encode()
	if err != nil {
		panic(fmt.Sprintf("runtest: %v", err))
	}
	return stored
}

// State returns the fold of what was said.
func (b *Builder) State() run.State { return b.state }

// Events returns the stored bytes of all events said, in order.
func (b *Builder) Events() [][]byte { return b.stored[:len(b.stored):len(b.stored)] }

// Lines joins events to a JSON Lines file.
func Lines(evs [][]byte) []byte {
	return append(bytes.Join(evs, []byte("\n")), '\n')
}

// Split takes a JSON Lines file apart; empty lines are left out.
func Split(file []byte) [][]byte {
	var evs [][]byte
	sc := bufio.NewScanner(bytes.NewReader(file))
	sc.Buffer(nil, events.MaxEvent+1)
	for sc.Scan() {
		if line := bytes.TrimSpace(sc.Bytes()); len(line) > 0 {
			evs = append(evs, bytes.Clone(line))
		}
	}
	return evs
}
