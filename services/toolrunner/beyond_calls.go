package toolrunner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/streaming"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// beyondTools are the tools that an agent must have to run commands beyond their calls: what it starts it can read and end.
var beyondTools = []string{"bash", "bash_output", "kill_shell"}

// stepCommands is what one call sees of the commands of its step.
type stepCommands struct {
	r   *Role
	s   run.State
	a   call.Attempt
	box *pool.Lazy
	m   *made
}

var _ tool.Background = (*stepCommands)(nil)

// background returns what an attempt runs commands in the background with; nil where its agent may not.
func (r *Role) background(s run.State, a call.Attempt, box *pool.Lazy, m *made) tool.Background {
	st := s.Step(a.Call.Step)
	if st == nil {
		return nil
	}
	agent, _ := s.Agent(st.AssignedAgent)
	for _, name := range beyondTools {
		if !slices.Contains(agent.Tools, name) {
			return nil
		}
	}
	return &stepCommands{r: r, s: s, a: a, box: box, m: m}
}

// known are the commands of the step that facts tell of.
func (c *stepCommands) known() []events.Background {
	if st := c.s.Step(c.a.Call.Step); st != nil {
		return st.Background
	}
	return nil
}

// Shown implements tool.Background.
func (c *stepCommands) Shown(handle string) int64 {
	for _, k := range c.known() {
		if k.ID == handle {
			return k.At
		}
	}
	return 0
}

// Start implements tool.Background.
func (c *stepCommands) Start(ctx context.Context, cmd tool.BackgroundCommand) (string, error) {
	if n := len(c.known()); n >= maxStarted {
		return "", tool.Fail(tool.Permanent, "do what is left in calls that wait", fmt.Errorf("this step has started %d commands in the background, which is the most", n))
	}
	if cmd.Limit <= 0 || cmd.Limit > tool.MaxBackground {
		cmd.Limit = tool.MaxBackground
	}
	if err := c.box.Prepare(); err != nil {
		return "", err
	}
	c.m.at.touch(c.a.Call.Effect)
	c.m.all()
	r, s, step := c.r, c.s, c.a.Call.Step
	b := &beyond{run: s.HarnessID, step: step, call: c.a.Call.ID, handle: "bg-" + c.a.Call.ID, text: r.mask(cmd.Text), workspace: c.m.at.Workspace,
		fence: c.a.Fence, began: time.Now(), gone: make(chan struct{})}
	var life context.Context
	life, b.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	b.life, b.free = context.WithTimeoutCause(life, cmd.Limit, errTimeUp)
	if err := r.yard.add(b); err != nil {
		b.free()
		return "", err
	}
	if r.cfg.Artifacts != nil && !r.cfg.Artifacts.Off(rules(s, c.a.Call)) {
		r.yard.writes(s.HarnessID)
	}
	box, leave := r.yard.enter(s.HarnessID, step, func() *longBox {
		way := r.egressWhile(s, step, func(now run.State) bool {
			st := now.Step(step)
			return !now.Status.Ended() && st != nil && st.Status == events.StepIsRunning
		})
		open, _ := r.opener(context.WithoutCancel(ctx), s, c.a.Call, c.m.at, way, true, cmd.Limit)
		return &longBox{open: open, way: way}
	})
	said := r.cfg.Live.Open(s.HarnessID, streaming.About{Step: step, Attempt: c.a.Number, Call: b.handle, Tool: c.a.Call.Tool})
	err := r.launch(ctx, b, cmd, box, leave, said)
	switch {
	case err == nil:
		return b.handle, nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, errors.ErrUnsupported):
		return "", tool.Fail(tool.Permanent, "run it without run_in_background", err)
	}
	return "", tool.Fail(tool.Permanent, "inspan doctor tells what this machine can run", fmt.Errorf("start it in the background: %w", err))
}

// find returns a command of the step; nil with a look where it is lost.
func (c *stepCommands) find(handle string) (*beyond, tool.BackgroundLook, error) {
	if b := c.r.yard.find(c.s.HarnessID, c.a.Call.Step, handle); b != nil {
		return b, tool.BackgroundLook{}, nil
	}
	for _, k := range c.known() {
		if k.ID == handle {
			return nil, c.lost(k), nil
		}
	}
	return nil, tool.BackgroundLook{}, tool.Fail(tool.Invalid, "bash_output without bash_id lists them", fmt.Errorf("no command of this step has the handle %q", handle))
}

// lost is a command that does not run here. Whoever it belongs to is gone, else the call would have been left to that one.
func (c *stepCommands) lost(k events.Background) tool.BackgroundLook {
	return tool.BackgroundLook{Handle: k.ID, Lost: true, End: fmt.Sprintf("it was lost with its toolrunner %s; it is not started again by itself", k.Runner)}
}

// Look implements tool.Background.
func (c *stepCommands) Look(ctx context.Context, handle string, after int64, wait time.Duration) (tool.BackgroundLook, error) {
	b, lost, err := c.find(handle)
	if err != nil || b == nil {
		return lost, err
	}
	patience := time.NewTimer(max(wait, 0))
	defer patience.Stop()
	for {
		l, more := b.look(after)
		if len(l.Output) > 0 || !l.Running || wait <= 0 {
			c.charge(b)
			return l, ctx.Err()
		}
		select {
		case <-more:
		case <-b.gone:
		case <-patience.C:
			wait = 0
		case <-ctx.Done():
			return tool.BackgroundLook{}, ctx.Err()
		}
	}
}

// List implements tool.Background.
func (c *stepCommands) List(ctx context.Context) ([]tool.BackgroundLook, error) {
	var all []tool.BackgroundLook
	here := map[string]bool{}
	for _, b := range c.r.yard.of(c.s.HarnessID) {
		if b.step == c.a.Call.Step {
			l, _ := b.look(b.out.size())
			all = append(all, l)
			here[b.handle] = true
		}
	}
	for _, k := range c.known() {
		if here[k.ID] {
			continue
		}
		l := c.lost(k)
		if alive, err := c.r.elsewhereAlive(ctx, k); err != nil {
			return nil, err
		} else if alive {
			l = tool.BackgroundLook{Handle: k.ID, Running: true, Text: "(at another toolrunner: ask for it by its handle)"}
		}
		all = append(all, l)
	}
	return all, ctx.Err()
}

// Kill implements tool.Background.
func (c *stepCommands) Kill(ctx context.Context, handle string) (tool.BackgroundLook, error) {
	b, lost, err := c.find(handle)
	if err != nil || b == nil {
		return lost, err
	}
	b.stop(errKilled)
	select {
	case <-b.gone:
	case <-ctx.Done():
		return tool.BackgroundLook{}, ctx.Err()
	}
	c.charge(b)
	l, _ := b.look(b.out.size())
	return l, nil
}

// charge counts what a command used with the call that found it ended.
func (c *stepCommands) charge(b *beyond) {
	if exit, ok := c.r.yard.charge(b); ok {
		c.box.Spend(exit)
	}
}

// elsewhereAlive reports whether a command belongs to another toolrunner that lives. Where workspaces follow their runs none
// does: whoever holds the workspace answers for it.
func (r *Role) elsewhereAlive(ctx context.Context, k events.Background) (bool, error) {
	if r.cfg.Trees != nil || k.Runner == r.cfg.Instance {
		return false, nil
	}
	alive, err := r.cfg.Leases.Alive(ctx, k.Runner)
	if err != nil {
		return false, fmt.Errorf("lease of %s: %w", k.Runner, err)
	}
	return alive, nil
}

// elsewhere leaves a call that goes on with what earlier ones left running to the toolrunner where that is.
func (r *Role) elsewhere(ctx context.Context, s run.State, c run.Call, deliveries uint64) error {
	st := s.Step(c.Step)
	if st == nil || len(st.Background) == 0 {
		return nil
	}
	t, _ := r.tool(s, c)
	goesOn, ok := t.(tool.Continuing)
	if !ok {
		return nil
	}
	input, err := r.input(ctx, c)
	if err != nil {
		return err
	}
	handle, ok := goesOn.Continues(input)
	if !ok {
		return nil
	}
	gone := ""
	for _, k := range slices.Backward(st.Background) {
		if handle != "" && k.ID != handle || k.Runner == gone {
			continue
		}
		if r.yard.find(s.HarnessID, c.Step, k.ID) != nil {
			return nil
		}
		alive, err := r.elsewhereAlive(ctx, k)
		if err != nil {
			return err
		}
		if alive {
			return &kernel.Later{After: again(deliveries)}
		}
		gone = k.Runner
	}
	return nil
}

// Mind ends what runs beyond its call and the sandboxes that are kept between calls when their step or their run has ended, or
// this instance is not the one that works for it any more, until ctx ends; then it ends all of it. What goes wrong is told to
// report and looked at again.
func (r *Role) Mind(ctx context.Context, report func(error)) {
	tick := time.NewTicker(topology.LeaseTerm / 3)
	defer tick.Stop()
	sure := time.Now() // that this instance counted as alive
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case runID := <-r.beyondEnds:
			if err := r.tidy(ctx, runID); err != nil && ctx.Err() == nil {
				report(err)
			}
		case <-tick.C:
			runs := r.minded()
			alive, err := r.cfg.Leases.Alive(ctx, r.cfg.Instance)
			if err == nil && alive || len(runs) == 0 && r.pool.Size() == 0 {
				sure = time.Now()
			}
			lost := err == nil && !alive || time.Since(sure) > 2*topology.LeaseTerm/3 // others take it for lost
			if r.pool.Expire(r.cfg.Sandboxes.Keep(), time.Now()); lost {
				r.pool.Clear()
			}
			for _, runID := range runs {
				if lost {
					r.finish(ctx, errTakenOver, r.yard.of(runID)...)
				} else if err := r.tidy(ctx, runID); err != nil && ctx.Err() == nil {
					report(err)
				}
			}
		}
	}
	r.yard.close()
	r.pool.Close()
}

// minded are the runs that have commands or sandboxes of a step here.
func (r *Role) minded() []string {
	all := append(r.yard.runs(), r.pool.Runs()...)
	slices.Sort(all)
	return slices.Compact(all)
}

// close ends all commands and waits until they are gone. None is started any more.
func (y *yard) close() {
	y.mu.Lock()
	y.closed = true
	for _, list := range y.commands {
		for _, b := range list {
			b.stop(errClosing)
		}
	}
	y.mu.Unlock()
	y.all.Wait()
}

// tidy ends the commands of a run that have to end.
func (r *Role) tidy(ctx context.Context, runID string) error {
	list := r.yard.of(runID)
	if len(list) == 0 && !r.pool.Has(runID) {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, endsTime)
	defer cancel()
	if r.cfg.Trees != nil && !r.cfg.Trees.Holds(runID) {
		r.finish(limited, errTakenOver, list...)
		r.pool.EndSteps(runID, func(string) bool { return true })
		return nil
	}
	s, err := r.cfg.Ledger.Fresh(limited, runID)
	if err != nil {
		return fmt.Errorf("commands in the background of run %s: %w", runID, err)
	}
	for _, b := range list {
		if why := r.fate(s, b); why != nil {
			r.finish(limited, why, b)
		}
	}
	r.pool.EndSteps(runID, func(step string) bool { return stepEnded(s, step) })
	return nil
}

// mayHaveEnded notes a run whose commands may have to end.
func (r *Role) mayHaveEnded(runID string) {
	if len(r.yard.of(runID)) == 0 && !r.pool.Has(runID) {
		return
	}
	select {
	case r.beyondEnds <- runID:
	default:
	}
}
