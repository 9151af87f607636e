package view

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// requested adds what a program of others asks for to the call that it carries out.
func (t *Tree) requested(at time.Time, d *events.CallRequestedData) {
	if p := t.calls[d.Parent]; p != nil {
		c := &CallNode{ID: d.Call, Tool: d.Tool, Step: d.Step, Input: wanted(d), input: d.Input, State: CallAsked, Asked: at}
		p.Inner, t.calls[c.ID] = append(p.Inner, c), c
	}
}

// wanted says in a few words what a program asks to do: its command or its files, else what it shows of it.
func wanted(d *events.CallRequestedData) string {
	var in struct {
		Command string   `json:"command"`
		Paths   []string `json:"paths"`
	}
	if err := json.Unmarshal(d.Input, &in); err == nil && in.Command == "" && len(in.Paths) > 0 {
		return Clip(strings.Join(in.Paths, " "), 300)
	}
	if in.Command == "" && d.Title != "" {
		return Clip(d.Title, 300)
	}
	return Input(d.Input)
}
