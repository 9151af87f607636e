package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// models answers as the scene has it, or fails in transit.
type models struct{ l *life }

func (m models) Model(string) (llm.Model, string, error) { return m, "model", nil }

// Ask implements llm.Model.
func (m models) Ask(ctx context.Context, req llm.Request, sink llm.Sink) (llm.Answer, error) {
	v := m.l.step(ctx, opWorld, false, "ask the model %s %s%s", req.Meta.Run, req.Meta.Purpose, req.Meta.Step)
	if ctx.Err() != nil {
		return llm.Answer{}, context.Cause(ctx)
	}
	if v != made {
		return llm.Answer{}, m.away()
	}
	m.l.p.w.audit.asked(req)
	m.l.p.w.audit.reads(req)
	m.l.p.w.audit.turnPermitted(req)
	if err := m.speaks(ctx, req.Meta, sink); err != nil {
		return llm.Answer{}, err
	}
	return m.l.p.w.play.Scene.answer(req), nil
}

// effect is one entry of the outside world's journal: it survives every crash.
type effect struct {
	run, call, key, tool, input string
	n                           int
	by                          *life
	at                          time.Time
	// verify is set where nothing was done but looked.
	verify bool
}

// toolbox is the outside world that tools change.
type toolbox struct {
	w       *world
	effects []effect
	// attempts counts the attempts that began, by the call's number in the scene.
	attempts map[int]int
	reg      map[*life]*tool.Registry
	// repositories are those of the runs that work in git.
	repositories map[string]*repository
	// strays counts what changed the files of a workspace behind its run.
	strays map[string]int
	forest forest
	// hub has the clones of runs whose children work in worktrees.
	hub hub
	// servers counts those that run, by life; lists how often one told its tools.
	servers map[*life]int
	lists   int
	// checks are the acceptance checks that were carried out, by run.
	checks map[string]verdicts
}

func newToolbox(w *world) *toolbox {
	return &toolbox{w: w, attempts: map[int]int{}, reg: map[*life]*tool.Registry{}, repositories: map[string]*repository{}, strays: map[string]int{}, forest: forest{shots: map[string]files{}}, hub: newHub(), servers: map[*life]int{}, checks: map[string]verdicts{}}
}

var effects = map[string]tool.Effect{"look": tool.Read, "put": tool.Idempotent, "note": tool.Reconcilable, "pay": tool.Once,
	events.ToolDelegate: tool.Idempotent, events.ToolDelegateResult: tool.Read}

func (b *toolbox) registry(l *life) *tool.Registry {
	var list []tool.Tool
	for _, name := range []string{"look", "put", "note", "pay"} {
		d := double{b: b, l: l, name: name}
		if name == "note" {
			list = append(list, verifying{d})
			continue
		}
		list = append(list, d)
	}
	for _, name := range []string{events.ToolDelegate, events.ToolDelegateResult} {
		list = append(list, delegating{double{b: b, l: l, name: name}})
	}
	for _, name := range rank(gitTools) {
		d := gitDouble{double{b: b, l: l, name: name}}
		if name == events.GitPush {
			list = append(list, gitPusher{d})
			continue
		}
		list = append(list, d)
	}
	r, err := tool.NewRegistry(list...)
	if err != nil {
		panic(err) // a fault of the simulation itself
	}
	return r
}

// classOf is the effect class of a tool.
func classOf(name string) tool.Effect {
	if e, ok := gitTools[name]; ok {
		return e
	}
	if name, ok := strings.CutPrefix(name, serverCall); ok {
		return serverTools[name]
	}
	return effects[name]
}

// double is a tool whose effects are written down.
type double struct {
	b    *toolbox
	l    *life
	name string
}

var inputSchema = json.RawMessage(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"},"why":{"type":"string"},"command":{"type":"string"}},"additionalProperties":false}`)

// Spec implements tool.Tool.
func (d double) Spec() tool.Spec {
	return tool.Spec{Name: d.name, Description: "changes the world", Input: inputSchema, Effect: classOf(d.name), Timeout: 2 * time.Minute}
}

// Run implements tool.Tool.
func (d double) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	var in struct{ N int }
	if err := json.Unmarshal(c.Input, &in); err != nil {
		return tool.Result{}, tool.Fail(tool.Invalid, "", err)
	}
	scene, _ := d.b.w.play.Scene.call(in.N)
	// The outside world may be slow, and it may be reached although the answer is not.
	if v := d.l.step(ctx, opWorld, false, "%s begins %s", d.name, c.ID); v != made {
		if ctx.Err() != nil {
			return tool.Result{}, context.Cause(ctx)
		}
		return tool.Result{}, tool.Fail(tool.Transient, "", errTrouble)
	}
	d.b.attempts[in.N]++
	sight, err := d.sightOf(c, in.N)
	if err != nil {
		return tool.Result{}, tool.Fail(tool.Transient, "", err)
	}
	if scene.Slow {
		select {
		case <-time.After(40 * time.Second):
		case <-ctx.Done():
			return tool.Result{}, context.Cause(ctx)
		}
		if v := d.l.step(ctx, opWorld, false, "%s goes on with %s", d.name, c.ID); v != made && ctx.Err() != nil {
			return tool.Result{}, context.Cause(ctx)
		}
	}
	if d.l.dead.Load() {
		return tool.Result{}, errDied
	}
	switch {
	case scene.Breaks:
		return tool.Result{}, tool.Fail(tool.Permanent, "", errors.New("broken for good"))
	case d.b.attempts[in.N] <= scene.Fails:
		return tool.Result{}, tool.Fail(tool.Transient, "", errors.New("not now"))
	}
	e := d.b.happens(d, c, in.N)
	if err := d.writes(c, in.N, e); err != nil {
		return tool.Result{}, tool.Fail(tool.Unknown, "", err)
	}
	if v := d.l.step(ctx, opWorld, true, "%s did %s", d.name, c.ID); v == before || v == after || v == died {
		return tool.Result{}, errDied
	}
	return tool.Result{Output: fmt.Sprintf("effect %d", e) + sight}, nil
}

// happens writes an effect down and returns its number.
func (b *toolbox) happens(d double, c tool.Call, n int) int {
	e := effect{run: c.Env.Sandbox.ID(), call: c.ID, key: c.Key, tool: d.name, input: string(c.Input), n: n, by: d.l, at: b.w.clock.Now()}
	for i, old := range b.effects {
		if classOf(d.name) == tool.Idempotent && old.key == e.key && !old.verify {
			b.w.tale.line(d.l.p.name, fmt.Sprintf("* %s %s again with the same key", d.name, c.ID))
			return i
		}
	}
	b.effects = append(b.effects, e)
	b.w.tale.line(d.l.p.name, fmt.Sprintf("* %s %s", d.name, c.ID))
	b.w.tale.counts["effect "+d.name]++
	b.w.audit.effect(e)
	return len(b.effects) - 1
}

// verifying is a tool that can tell whether it took effect.
type verifying struct{ double }

// Verify implements tool.Verifier.
func (d verifying) Verify(ctx context.Context, c tool.Call) (bool, tool.Result, error) {
	switch v := d.l.step(ctx, opWorld, false, "%s looks after %s", d.name, c.ID); {
	case ctx.Err() != nil:
		return false, tool.Result{}, context.Cause(ctx)
	case v == before || v == after || v == died:
		return false, tool.Result{}, errDied
	case v != made:
		return false, tool.Result{}, errTrouble
	}
	for i, e := range d.b.effects {
		if e.run == c.Env.Sandbox.ID() && e.call == c.ID && !e.verify {
			return true, tool.Result{Output: fmt.Sprintf("effect %d", i)}, nil
		}
	}
	d.b.effects = append(d.b.effects, effect{run: c.Env.Sandbox.ID(), call: c.ID, tool: d.name, by: d.l, verify: true})
	return false, tool.Result{}, nil
}
