package agentfile

import (
	"maps"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/internal/runtime"
	"github.com/inspan/inspan/pkg/events"
)

// runtimePrefix is another spelling of the key runtime, in the place of a model.
const runtimePrefix = "runtime:"

// runtime pins the program that carries out the steps of an agent, and makes of the agent one that a model of that name
// drives. Its tools are what the program may do inside.
func (p *parsing) runtime(root *node, a *events.Agent) {
	n, model := root.child("runtime"), root.child("model")
	name := n.str()
	if short, ok := strings.CutPrefix(model.str(), runtimePrefix); ok && n == nil {
		n, name, model = model, short, nil
	}
	if n == nil {
		return
	}
	known := p.defaults.runtimes
	if known == nil {
		known = runtime.Presets()
	}
	e, ok := known[name]
	if !ok {
		p.failAt(n, Error{Code: CodeValue, Message: "there is no such runtime", Actual: shown(name),
			Hint: didyoumean.Hint(name, slices.Sorted(maps.Keys(known)), "inspan runtimes list names them; add one as "+
				runtime.Folder+"/NAME"+runtime.Ext+" in the folder of agents")})
		return
	}
	for key, why := range map[string]string{"model": "a runtime has its own model", "plan": "a runtime makes no plans",
		"delegates": "a runtime gives no work away", "mcp": "a runtime has its own tools"} {
		if at := root.child(key); at != nil && (key != "model" || model != nil) {
			p.failAt(at, Error{Code: CodeConflict, Message: why, Hint: "leave out " + key + " or runtime"})
		}
	}
	for i, t := range a.Tools {
		if !events.IsInner(t) {
			p.failAt(root.child("tools").items[i],
				Error{Code: CodeValue, Message: "the value is nothing that a runtime asks to do",
					Expected: "one of " + strings.Join(events.InnerTools(), ", "), Actual: shown(t),
					Hint: "tools of an agent with a runtime are what the program may do inside"})
		}
	}
	r := e.Runtime()
	a.Runtime, a.Model = &r, events.RuntimeProvider+"/"+name
	a.Tools = append(slices.Clone(a.Tools), events.ToolRuntime)
}
