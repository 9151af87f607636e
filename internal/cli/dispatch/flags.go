package dispatch

import (
	"errors"
	"io"
	"strings"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/precheck"
	"github.com/inspan/inspan/pkg/events"
)

// RunFlags are the flags of inspan run.
type RunFlags struct {
	app.OwnStation
	pathFlags
	limitFlags
	repoFlags
	taskFlags
	CopyFlags
	Model, Session, plan, id string
	harness                  string
	Autonomy                 int
	stream                   bool
	vars                     []string
	Yes, detach, Own         bool
	// waitGates goes on watching at a gate that this command cannot ask about.
	waitGates bool
	// keep is the run that works on a copy, so that its station's store is kept; empty for none.
	keep string
}

// taskFlags are what is to be done, and what decides that it is.
type taskFlags struct {
	text, attached, project string
	acceptFlags
	modeFlags
}

// Variables reads name=value; nil where there are none.
func Variables(given []string) (map[string]string, error) {
	var out map[string]string
	for _, kv := range given {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, app.Usage("--var %q: want name=value", kv)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[k] = v
	}
	return out, nil
}

// Of are the flags as the command of an app has them: where the directory is one of a project (inspan stations route),
// and that decided the station, the run is of that project unless --project says otherwise.
func (f RunFlags) Of(a *app.App) RunFlags {
	if f.project == "" && !a.Given("project") {
		f.project = a.Routed.Project
	}
	return f
}

// Task is the task that the flags describe; in is read where a flag names standard input.
func (f RunFlags) Task(agent string, in io.Reader) (events.Task, error) {
	t := events.Task{ID: f.id, Agent: agent, Model: f.Model, Session: f.Session, Project: f.project}
	if f.project != "" {
		if err := events.CheckID("project", f.project); err != nil {
			return t, app.Usage("--project: %w", err)
		}
	}
	if err := f.invocation(&t); err != nil {
		return t, err
	}
	if err := errors.Join(f.setPlacement(&t), f.path(&t), f.acceptFlags.set(&t)); err != nil {
		return t, err
	}
	if f.Timeout != "" {
		t.Timeout = f.Timeout
	}
	for _, o := range []struct {
		dst **int
		v   int
	}{{&t.Autonomy, f.Autonomy}, {&t.MaxToolCalls, f.MaxCalls}, {&t.MaxSteps, f.MaxSteps}} {
		if o.v != 0 {
			*o.dst = &o.v
		}
	}
	if f.tokens != 0 {
		t.MaxTokens = &f.tokens
	}
	if f.usd != "" {
		if _, err := events.ParseUSD(f.usd); err != nil {
			return t, app.Usage("--budget-usd: %w", err)
		}
		t.MaxUSD = events.USD(strings.TrimPrefix(f.usd, "$"))
	}
	if f.Autonomy < 0 || f.Autonomy > 5 {
		return t, app.Usage("--autonomy %d: want 1 to 5", f.Autonomy)
	}
	var err error
	if t.Variables, err = Variables(f.vars); err != nil {
		return t, err
	}
	if t.Task, err = filled(f.text, t.Variables); err != nil {
		return t, err
	}
	t.Task = attach(t.Task, f.attached)
	if f.plan != "" {
		if t.Plan, err = app.ReadPlan(f.plan, in); err != nil {
			return t, err
		}
	}
	if err := f.modeFlags.set(&t); err != nil {
		return t, err
	}
	return t, precheck.Task(t)
}
