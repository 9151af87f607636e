// Package gitcall is the git work of one call of a run: where it works, which branches it shares, and until when its
// fence holds.
package gitcall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/internal/egress"
	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// Config holds what the git work of calls needs.
type Config struct {
	// Desk does the work; nil does none.
	Desk   *gitwork.Desk
	Ledger *runlog.Ledger
	// Sandboxes says which sandboxes could not read a mirror of this machine.
	Sandboxes *pool.Opener
	// Trees are the workspaces that follow their runs; nil where none does.
	Trees *workspace.Trees
	// Again is called when files came into a workspace from a repository: they are not what the run made.
	Again func(ctx context.Context, runID, dir string)
}

// Calls does the git work of calls.
type Calls struct{ cfg Config }

// New returns the git work of calls.
func New(cfg Config) *Calls { return &Calls{cfg: cfg} }

// For is the git work of one attempt, in its workspace and under its fence; nil where this toolrunner does none. begin
// is called before the workspace is touched, progress takes what the work says as it comes.
func (c *Calls) For(s run.State, a call.Attempt, at workdir.Dir, begin func(), progress func(line string)) tool.Git {
	if c.cfg.Desk == nil || s.Created == nil || inPlace(at) {
		return nil
	}
	root := c.cfg.Sandboxes.Root()
	j := c.job(s, at)
	j.Scope, j.Call = delivery.Scope(s.Created, s.HarnessID), s.HarnessID+"/"+a.Call.ID
	if st := s.Step(a.Call.Step); st != nil {
		j.Agent = st.AssignedAgent
	}
	if w := s.Created.Git; w != nil && w.Begin != nil {
		j.From, j.Line = w.Begin.Scopes, w.Begin.Branch
	}
	if j.Ephemeral = ephemeral(s); j.Ephemeral {
		j.Barred = c.barred(s)
	}
	j.Begin = func() error {
		begin()
		_, err := workdir.Make(root, at.Path)
		return err
	}
	j.Progress = progress
	j.Current = func(ctx context.Context) error {
		now, err := c.cfg.Ledger.Fresh(ctx, s.HarnessID)
		if err == nil && !a.Holds(now) {
			err = egress.ErrStale
		}
		return err
	}
	return fetched{c.cfg.Desk.At(j), c.cfg.Again, s.HarnessID, j.Dir}
}

// inPlace reports whether a workspace is a directory of a person, whose repository is the person's alone: git tools do
// nothing there, and commands of git can read it.
func inPlace(at workdir.Dir) bool {
	_, ok := events.PlaceOf(at.Workspace)
	return ok
}

// job is where the git work of a run is done, and the repository of its task.
func (c *Calls) job(s run.State, at workdir.Dir) gitwork.Job {
	return gitwork.Job{Dir: filepath.Join(c.cfg.Sandboxes.Root(), filepath.FromSlash(at.Path)), Repo: s.Created.Repo}
}

// Preview shows what git work of a run would change in its workspace; nil where this toolrunner does none.
func (c *Calls) Preview(s run.State, at workdir.Dir) func(ctx context.Context, name string,
	input json.RawMessage) (gitwork.Shown, error) {
	if c.cfg.Desk == nil || s.Created == nil || inPlace(at) {
		return nil
	}
	return func(ctx context.Context, name string, input json.RawMessage) (gitwork.Shown, error) {
		j := c.job(s, at)
		if _, err := os.Stat(j.Dir); errors.Is(err, fs.ErrNotExist) {
			return gitwork.Shown{}, workdir.ErrMissing
		}
		return c.cfg.Desk.Preview(ctx, j, delivery.Base(s), name, input)
	}
}

// ephemeral reports whether a run asks for an ephemeral workspace.
func ephemeral(s run.State) bool {
	return s.Created != nil && s.Created.Git != nil && s.Created.Git.Workspace == events.WorkspaceEphemeral
}

// barred says why no workspace can take objects from a mirror here for a run; nil where it can. It is never made a full
// copy in silence.
func (c *Calls) barred(s run.State) error {
	if c.cfg.Trees != nil && c.cfg.Trees.Follow() {
		return errors.New("workspaces follow their runs to other machines here (INSPAN_WORKSPACE_MODE=follow), and mirrors do not: set workspace: persistent")
	}
	for _, st := range s.Plan.Steps {
		mode := c.cfg.Sandboxes.Mode(s.Agents[st.AssignedAgent].Sandbox)
		if c.cfg.Sandboxes.Away(mode) && st.Kind == "" {
			return fmt.Errorf("%w, which the sandbox %s of agent %s cannot show: set workspace: persistent, or another sandbox",
				pool.ErrAlternates, mode, st.AssignedAgent)
		}
	}
	return nil
}

// fetched is git work whose files are not taken for what the run made: they came from a repository.
type fetched struct {
	tool.Git
	again    func(ctx context.Context, runID, dir string)
	run, dir string
}

// Do implements tool.Git.
func (f fetched) Do(ctx context.Context, name string, input json.RawMessage) (json.RawMessage, error) {
	out, err := f.Git.Do(ctx, name, input)
	if (name == gitwork.Prepare || name == gitwork.Merge) && ctx.Err() == nil {
		f.again(ctx, f.run, f.dir)
	}
	return out, err
}
