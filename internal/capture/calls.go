package capture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// Changes is what one call may have changed in its workspace, and what it saved by name. A tool may use it from several
// goroutines.
type Changes struct {
	mu sync.Mutex
	// anywhere says that a command ran; else paths are the files that were written. Guarded by mu, as is saved.
	anywhere bool
	paths    []string
	saved    []events.Artifact
}

// Anything is a call of which it is not known what it did.
func Anything() *Changes { return &Changes{anywhere: true} }

// File takes note of a file that may be changed, by its path; of any file where that is empty.
func (c *Changes) File(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if path == "" {
		c.anywhere = true
		return
	}
	c.paths = append(c.paths, path)
}

// none reports whether the call touched nothing, as far as is known here.
func (c *Changes) none() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.anywhere && len(c.paths)+len(c.saved) == 0
}

// Jobs write into workspaces after the calls that started them.
type Jobs interface {
	// Wrote returns how many jobs of a run may have written what was not looked at since, and whether all of them have
	// ended.
	Wrote(run string) (n int, quiet bool)
	// Looked notes that a run was looked at when n jobs of it had written and all had ended, or with 0 that the run has
	// ended.
	Looked(run string, n int)
}

// Calls captures what calls make in the workspaces below a root.
type Calls struct {
	keeper *Keeper
	runs   Runs
	root   string
	jobs   Jobs

	mu sync.Mutex
	// clean are the runs whose artifacts are taken out of their workspace at the end, with its directory. Guarded by
	// mu.
	clean map[string]string
}

// NewCalls captures with a keeper; a nil one captures nothing.
func NewCalls(keeper *Keeper, runs Runs, root string, jobs Jobs) *Calls {
	return &Calls{keeper: keeper, runs: runs, root: root, jobs: jobs, clean: map[string]string{}}
}

// makes reports whether what a call makes may be kept: a tool of class read makes nothing.
func (k *Calls) makes(c run.Call) bool { return k.keeper != nil && call.NeedsStart(c.Effect) }

// rulesOf are those of the agent whose call it is.
func rulesOf(s run.State, c run.Call) *events.ArtifactRules {
	if st := s.Step(c.Step); st != nil {
		return s.Agents[st.AssignedAgent].Artifacts
	}
	return nil
}

// job says where a call works and under which rules.
func (k *Calls) job(s run.State, c run.Call, at workdir.Dir) (Job, error) {
	dir, err := workdir.Make(k.root, at.Path)
	return Job{Dir: dir, Step: c.Step, Rules: rulesOf(s, c)}, err
}

// On reports whether artifacts of a call are kept.
func (k *Calls) On(s run.State, c run.Call) bool {
	return k.keeper != nil && !k.keeper.Off(rulesOf(s, c))
}

// Prepare returns what is done once before a call touches the workspace: what earlier runs of the workflow left, and
// what earlier steps made elsewhere, is brought here, and what is there is listed, so that it is known afterwards what
// is new. note tells people of that.
func (k *Calls) Prepare(ctx context.Context, s run.State, c run.Call, at workdir.Dir,
	note func(line string)) func() error {
	if k.keeper == nil {
		return func() error { return nil }
	}
	return sync.OnceValue(func() error {
		j, err := k.job(s, c, at)
		_, place := events.PlaceOf(at.Workspace) // nothing is brought into a directory of a person, or taken out of it
		if err == nil && !place {
			_, err = k.keeper.Earlier(ctx, s, Earlier{Dir: j.Dir, Rules: j.Rules, Runs: k.runs, Note: note})
		}
		if err == nil && !place {
			_, err = k.keeper.Restore(ctx, s, j.Dir, j.Rules)
		}
		// What was saved by name, or made by earlier runs, is not to be brought back here where it is taken away later.
		if err == nil && (len(s.Created.Earlier) > 0 || k.makes(c) && (!k.keeper.Off(j.Rules) || s.Artifacts.Len() > 0)) {
			err = k.keeper.Begin(ctx, s.HarnessID, j.Dir)
		}
		if err != nil {
			class := tool.Transient
			if errors.Is(err, workdir.ErrLinked) {
				class = tool.Permanent
			}
			return tool.Fail(class, "", fmt.Errorf("prepare the workspace: %w", err))
		}
		if j.Rules != nil && j.Rules.Clean && s.Created.SessionFence == 0 && !place {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.clean[s.HarnessID] = j.Dir
		}
		return nil
	})
}

// Again lists the files of a workspace anew, after files came there that the run did not make. At worst more is kept
// than must be.
func (k *Calls) Again(ctx context.Context, runID, dir string) {
	if k.keeper != nil {
		_ = k.keeper.Again(ctx, runID, dir)
	}
}

// Saver is what the tool artifact_save keeps files with; nil where none are kept.
func (k *Calls) Saver(s run.State, c run.Call, at workdir.Dir, changes *Changes) func(context.Context,
	tool.Saving) (tool.Saved, error) {
	if !k.makes(c) {
		return nil
	}
	return func(ctx context.Context, want tool.Saving) (tool.Saved, error) {
		j, err := k.job(s, c, at)
		if err != nil {
			return tool.Saved{}, tool.Fail(tool.Permanent, "", err)
		}
		if want.Type != "" && !slices.Contains(events.ArtifactTypes(), want.Type) {
			return tool.Saved{}, tool.Fail(tool.Invalid, "use file, log, report, screenshot or data",
				fmt.Errorf("unknown type %q", artifact.Shown(want.Type)))
		}
		kept, err := k.keeper.Save(ctx, s, j, want.Path, want.Type, artifact.Shown(want.Name))
		if err != nil {
			class := tool.Transient
			if Refused(err) {
				class = tool.Invalid
			}
			return tool.Saved{}, tool.Fail(class, "", err)
		}
		changes.mu.Lock()
		defer changes.mu.Unlock()
		changes.saved = append(changes.saved, kept)
		return tool.Saved{Name: kept.Name, Type: kept.Type, ContentType: kept.ContentType, Size: kept.Size}, nil
	}
}

// Look finds and stores what a call made, and what jobs made since the last look at all. continues says that the call
// goes on with jobs. It never fails: what cannot be kept is listed as left out.
func (k *Calls) Look(ctx context.Context, s run.State, c run.Call, at workdir.Dir, changes *Changes,
	continues bool) *Look {
	wrote, quiet := k.jobs.Wrote(s.HarnessID)
	whole := wrote > 0 && (quiet || continues)
	byJobs := whole || wrote > 0 && call.NeedsStart(c.Effect) // else each read would list the workspace beside a server
	if !byJobs && (!k.makes(c) || changes.none()) || at.Path == "" {
		return &Look{Found: artifact.Found{Limits: artifact.LimitsOf(rulesOf(s, c))}}
	}
	j, err := k.job(s, c, at)
	changes.mu.Lock()
	defer changes.mu.Unlock()
	j.Unseen = byJobs && !whole && !changes.anywhere
	if j.All, j.Paths = changes.anywhere || byJobs, changes.paths; err != nil {
		j.All, j.Paths = false, nil
	}
	l := k.keeper.Look(ctx, s, j, changes.saved...)
	if j.All && quiet {
		l.Then(func() { k.jobs.Looked(s.HarnessID, wrote) })
	}
	return l
}

// AddLog adds the whole output of a call as an artifact (ART-12): what its event has shortened and refers to.
func (k *Calls) AddLog(l *Look, s run.State, c run.Call, ref events.Ref, now time.Time) {
	if !k.On(s, c) {
		return
	}
	l.Artifacts = append(l.Artifacts, events.Artifact{Type: events.ArtifactLog, Name: c.ID + ".log", Size: ref.Size,
		SHA256: ref.SHA256, ContentType: "text/plain", CreatedAt: now.UTC(),
		Key: artifact.LogKeyOf(artifact.OwnerOf(s), c.ID), Kept: events.StoredWithLog, Session: s.Identity.Session,
		Run: s.HarnessID, Step: c.Step})
}

// Events are those of what was found, for the fence of an attempt.
func (l *Look) Events(s run.State, c run.Call, fence uint64) []events.Payload {
	return artifact.Saved(s, events.ToolRef{Step: c.Step, Call: c.ID, Tool: c.Tool}, fence, l.Found)
}

// Knows reports whether something is known of the workspace of a run.
func (k *Calls) Knows(runID string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, clean := k.clean[runID]
	return clean || k.keeper != nil && k.keeper.Knows(runID)
}

// Ended lets go of what is known of the workspace of a run that has ended, and takes the artifacts out of it where its
// agent wants that (ART-14). What cannot be removed stays.
func (k *Calls) Ended(s run.State) {
	k.mu.Lock()
	dir, clean := k.clean[s.HarnessID]
	delete(k.clean, s.HarnessID)
	k.mu.Unlock()
	if k.keeper == nil {
		return
	}
	if clean {
		_, _ = k.keeper.Clean(s, dir)
	}
	k.keeper.Forget(s.HarnessID)
	k.jobs.Looked(s.HarnessID, 0)
}
