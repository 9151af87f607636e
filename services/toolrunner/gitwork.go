package toolrunner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/internal/egress"
	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// gitWork is the git work of one attempt, in its place and under its fence; nil where this toolrunner does none.
func (r *Role) gitWork(s run.State, a call.Attempt, m *made, progress func(stream string, chunk []byte)) tool.Git {
	if r.cfg.Git == nil || s.Created == nil {
		return nil
	}
	j := gitwork.Job{Dir: filepath.Join(r.cfg.Sandboxes.Root(), filepath.FromSlash(m.at.Path)), Scope: delivery.Scope(s.Created, s.HarnessID), Call: s.HarnessID + "/" + a.Call.ID, Repo: s.Created.Repo}
	if st := s.Step(a.Call.Step); st != nil {
		j.Agent = st.AssignedAgent
	}
	if w := s.Created.Git; w != nil && w.Begin != nil {
		j.From, j.Line = w.Begin.Scopes, w.Begin.Branch
	}
	if j.Light = ephemeral(s); j.Light {
		j.Barred = r.barred(s)
	}
	j.Begin = func() error {
		m.bare = true
		m.at.touch(a.Call.Effect)
		_, err := workdir.Make(r.cfg.Sandboxes.Root(), m.at.Path)
		return err
	}
	j.Progress = func(line string) { progress("stderr", []byte(line)) }
	j.Current = func(ctx context.Context) error {
		now, err := r.cfg.Ledger.Fresh(ctx, s.HarnessID)
		if err == nil && !a.Holds(now) {
			err = egress.ErrStale
		}
		return err
	}
	return brought{r.cfg.Git.At(j), r, s.HarnessID, j.Dir}
}

// ephemeral reports whether a run asks for an ephemeral workspace.
func ephemeral(s run.State) bool {
	return s.Created != nil && s.Created.Git != nil && s.Created.Git.Workspace == events.WorkspaceEphemeral
}

// barred says why no workspace can take objects from a mirror here for a run; nil where it can. It is never made a full copy in silence.
func (r *Role) barred(s run.State) error {
	if r.cfg.Trees != nil && r.cfg.Trees.Follow() {
		return errors.New("workspaces follow their runs to other machines here (INSPAN_WORKSPACE_MODE=follow), and mirrors do not: ask for workspace: persistent")
	}
	for _, st := range s.Plan.Steps {
		mode := r.cfg.Sandboxes.Mode(s.Agents[st.AssignedAgent].Sandbox)
		if r.cfg.Sandboxes.Away(mode) && st.Kind == "" {
			return fmt.Errorf("%w, which the sandbox %s of agent %s can not show: ask for workspace: persistent, or for another sandbox", pool.ErrAlternates, mode, st.AssignedAgent)
		}
	}
	return nil
}

// brought is git work whose files are not taken for what the run made: they came from a repository.
type brought struct {
	tool.Git
	role     *Role
	run, dir string
}

// Do implements tool.Git.
func (b brought) Do(ctx context.Context, name string, input json.RawMessage) (json.RawMessage, error) {
	out, err := b.Git.Do(ctx, name, input)
	if b.role.cfg.Artifacts != nil && (name == gitwork.Prepare || name == gitwork.Merge) && ctx.Err() == nil {
		_ = b.role.cfg.Artifacts.Again(ctx, b.run, b.dir) // at worst more is kept than must be
	}
	return out, err
}
