package gatekeeper

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/inspan/inspan/internal/core/hook"
	"github.com/inspan/inspan/internal/core/loop"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// maxAsked is the most of a call's arguments that a hook is shown, in bytes; of larger ones it gets the hash alone.
const maxAsked = 256 << 10

// question is a call that hooks are to be asked about.
type question struct {
	due   []hook.Due
	about hook.Question
}

// answered is gate.Policy.Hooks over the answers gathered so far; what is missing is added to owed.
func (r *Role) answered(s *run.State, answers map[string][]events.HookAnswer, owed *[]question) func(events.Agent,
	*run.Call, string, json.RawMessage) ([]events.HookAnswer, bool) {
	return func(a events.Agent, c *run.Call, effect string, input json.RawMessage) ([]events.HookAnswer, bool) {
		due := r.cfg.Hooks.Due(a, events.OnPreTool, c.Tool)
		if len(due) == 0 {
			return nil, true
		}
		if got, ok := answers[c.ID]; ok {
			return got, true
		}
		sum := sha256.Sum256(input)
		about := hook.Question{Run: s.HarnessID, Agent: a.Name, Step: c.Step, Turn: c.Turn,
			Call: &hook.Call{ID: c.ID, Tool: c.Tool, Effect: effect, InputHash: hex.EncodeToString(sum[:]), Row: 1}}
		if n := loop.Row(*s, c.Step); n > 1 {
			about.Call.Row = n
		}
		if len(input) <= maxAsked {
			about.Call.Input = input
		}
		*owed = append(*owed, question{due, about})
		return nil, false
	}
}
