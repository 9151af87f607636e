package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// States of a Registration.
const (
	AgentNew       = "new"
	AgentChanged   = "changed"
	AgentUnchanged = "unchanged"
	AgentRemoved   = "removed"
)

// Registration is what registering an agent did, or would do.
type Registration struct {
	Agent string `json:"agent"`
	State string `json:"state"`
	// Fields are those of a changed definition that differ, by the names of events.Agent in JSON: "digest" alone means
	// that only comments or layout of the file did, none that it was stored in another form.
	Fields []string `json:"fields,omitempty"`
}

// ErrNotReadBack means that a definition was written and another one is read.
var ErrNotReadBack = errors.New("it was written, and another definition is read back: try again")

// Waits for a replica that is behind, when what was written is read back.
const (
	readBackWait = 5 * time.Second
	readBackLook = 10 * time.Millisecond
)

// Compare says what registering a definition would do.
func (a *Agents) Compare(ctx context.Context, def events.Agent) (Registration, error) {
	r := Registration{Agent: def.Name, State: AgentUnchanged}
	old, err := a.KV.Get(ctx, agentPrefix+def.Name)
	if errors.Is(err, kernel.ErrNotFound) {
		r.State = AgentNew
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("agent %s: %w", def.Name, err)
	}
	b, err := json.Marshal(def)
	if err != nil {
		return r, fmt.Errorf("encode agent %s: %w", def.Name, err)
	}
	if !bytes.Equal(old, b) {
		r.State, r.Fields = AgentChanged, differing(old, b)
	}
	return r, nil
}

// differing are the names of the fields that two definitions do not share; of several, the digest says nothing. What
// was stored and is no definition has all fields differ.
func differing(old, now []byte) (names []string) {
	var was, is map[string]json.RawMessage
	if json.Unmarshal(old, &was) != nil {
		was = nil
	}
	_ = json.Unmarshal(now, &is) // it was just encoded
	for name := range is {
		if !bytes.Equal(was[name], is[name]) {
			names = append(names, name)
		}
	}
	for name := range was {
		if _, ok := is[name]; !ok {
			names = append(names, name)
		}
	}
	if len(names) > 1 {
		names = slices.DeleteFunc(names, func(n string) bool { return n == "digest" })
	}
	slices.Sort(names)
	return names
}

// Put registers a definition, where it is not there already, and returns once it was read back.
func (a *Agents) Put(ctx context.Context, def events.Agent) (Registration, error) {
	r, err := a.Compare(ctx, def)
	if err != nil || r.State == AgentUnchanged {
		return r, err
	}
	b, err := json.Marshal(def)
	if err == nil {
		err = a.KV.Put(ctx, agentPrefix+def.Name, b)
	}
	if err != nil {
		return r, fmt.Errorf("register agent %s: %w", def.Name, err)
	}
	return r, a.ReadBack(ctx, r, def)
}

// ReadBack waits until a definition that was registered is what is read, for those that say that it is.
func (a *Agents) ReadBack(ctx context.Context, r Registration, def events.Agent) error {
	for until := time.Now().Add(readBackWait); ; {
		now, err := a.Compare(ctx, def)
		if err != nil || now.State == AgentUnchanged {
			return err
		}
		if time.Now().After(until) {
			return fmt.Errorf("agent %s: %w", r.Agent, ErrNotReadBack)
		}
		if err := kernel.Sleep(ctx, readBackLook); err != nil {
			return err
		}
	}
}

// Remove takes the definition of an agent away. Runs that have begun keep theirs.
func (a *Agents) Remove(ctx context.Context, name string) error {
	if err := a.KV.Delete(ctx, agentPrefix+name); err != nil {
		return fmt.Errorf("remove agent %s: %w", name, err)
	}
	return nil
}

// Register reads a folder of agent files into the configuration bucket and returns the names and warnings. A
// definition that is there already is not written again.
func (a *Agents) Register(ctx context.Context, dir string) (names []string, warnings []agentfile.Warning, err error) {
	defs, warnings, err := a.Defaults.LoadDir(dir)
	if err != nil {
		return nil, warnings, err
	}
	for _, name := range slices.Sorted(maps.Keys(defs)) {
		if _, err := a.Put(ctx, defs[name]); err != nil {
			return nil, warnings, err
		}
		names = append(names, name)
	}
	return names, warnings, nil
}
