package toolrunner

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// made is what an attempt may have changed in its workspace, and what it saved by name. Tools may be several goroutines.
type made struct {
	// at is where the attempt works; with an empty path there is nothing to look at.
	at place
	mu sync.Mutex
	// anywhere says that a command ran; else paths are those that were written. Both guarded by mu.
	anywhere bool
	paths    []string
	saved    []events.Artifact
	// bare says that the result is read by programs: nothing is put before it. It is set before the tool works.
	bare bool
	// note tells people what is done before the tool works; may be nil. It is set before that.
	note func(line string)
}

// anything is an attempt of which nobody knows what it did.
func anything(at place) *made { return &made{at: at, anywhere: true} }

func (m *made) all() {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.anywhere = true
	}
}

// nothing reports whether the attempt touched nothing, as far as is known here.
func (m *made) nothing() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.anywhere && len(m.paths)+len(m.saved) == 0
}

// wrote takes note of a file that may be changed, by its path; of any file where that is empty.
func (m *made) wrote(path string) {
	if path == "" {
		m.all()
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paths = append(m.paths, path)
}

// keeps reports whether what a call makes may be kept: a tool of class read makes nothing.
func (r *Role) keeps(c run.Call) bool { return r.cfg.Artifacts != nil && call.NeedsStart(c.Effect) }

// rules are those of the agent whose call it is.
func rules(s run.State, c run.Call) *events.ArtifactRules {
	if st := s.Step(c.Step); st != nil {
		return s.Agents[st.AssignedAgent].Artifacts
	}
	return nil
}

// job says where a call works and under which rules.
func (r *Role) job(s run.State, c run.Call, m *made) (capture.Job, error) {
	dir, err := workdir.Make(r.cfg.Sandboxes.Root(), m.at.Path)
	return capture.Job{Dir: dir, Step: c.Step, Rules: rules(s, c)}, err
}

// first is done before a call first touches the workspace: it is provided with its files, and prepared. A run whose calls
// touch none leaves nothing.
func (r *Role) first(ctx context.Context, s run.State, c run.Call, m *made) func() error {
	prepare := r.prepare(ctx, s, c, m)
	return func() error {
		r.files.Provide(ctx, s, m.at.Dir)
		if prepare == nil {
			return nil
		}
		return prepare()
	}
}

// prepare is done before a call first touches the workspace: what earlier runs of the workflow left, and what earlier steps
// made elsewhere, is brought here, and what is there is listed, so that it is known afterwards what is new.
func (r *Role) prepare(ctx context.Context, s run.State, c run.Call, m *made) func() error {
	if r.cfg.Artifacts == nil {
		return nil
	}
	return sync.OnceValue(func() error {
		j, err := r.job(s, c, m)
		if err == nil {
			_, err = r.cfg.Artifacts.Earlier(ctx, s, capture.Earlier{Dir: j.Dir, Rules: j.Rules, Runs: r.cfg.Ledger, Note: m.note})
		}
		if err == nil {
			_, err = r.cfg.Artifacts.Restore(ctx, s, j.Dir, j.Rules)
		}
		// What was saved by name, or made by earlier runs, is not to be brought back here where it is taken away later.
		if err == nil && (len(s.Created.Earlier) > 0 || r.keeps(c) && (!r.cfg.Artifacts.Off(j.Rules) || s.Artifacts.Len() > 0)) {
			err = r.cfg.Artifacts.Begin(ctx, s.HarnessID, j.Dir)
		}
		if err != nil {
			return tool.Fail(tool.Transient, "", fmt.Errorf("prepare the workspace: %w", err))
		}
		if j.Rules != nil && j.Rules.Clean && s.Created.SessionFence == 0 {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.clean[s.HarnessID] = j.Dir
		}
		return nil
	})
}

// saver is what the tool artifact_save keeps files with; nil where none are kept.
func (r *Role) saver(s run.State, a call.Attempt, m *made) func(context.Context, tool.Saving) (tool.Saved, error) {
	if !r.keeps(a.Call) {
		return nil
	}
	return func(ctx context.Context, want tool.Saving) (tool.Saved, error) {
		j, err := r.job(s, a.Call, m)
		if err != nil {
			return tool.Saved{}, tool.Fail(tool.Permanent, "", err)
		}
		if want.Type != "" && !slices.Contains(events.ArtifactTypes(), want.Type) {
			return tool.Saved{}, tool.Fail(tool.Invalid, "use file, log, report, screenshot or data", fmt.Errorf("there is no type %q", artifact.Shown(want.Type)))
		}
		kept, err := r.cfg.Artifacts.Save(ctx, s, j, want.Path, want.Type, artifact.Shown(want.Name))
		if err != nil {
			class := tool.Transient
			if capture.Refused(err) {
				class = tool.Invalid
			}
			return tool.Saved{}, tool.Fail(class, "", err)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.saved = append(m.saved, kept)
		return tool.Saved{Name: kept.Name, Type: kept.Type, ContentType: kept.ContentType, Size: kept.Size}, nil
	}
}

// look finds and stores what an attempt made, and what commands that run beyond their calls made since the last look at all. It never
// fails: what can not be kept is said to be left out.
func (r *Role) look(ctx context.Context, s run.State, c run.Call, m *made) *capture.Look {
	wrote, quiet := r.jobs.Wrote(s.HarnessID)
	whole := wrote > 0 && (quiet || r.goesOn(s, c))
	beyond := whole || wrote > 0 && call.NeedsStart(c.Effect) // else each read would list the workspace beside a server
	if !beyond && (!r.keeps(c) || m.nothing()) || m.at.Path == "" {
		return &capture.Look{Found: artifact.Found{Limits: artifact.LimitsOf(rules(s, c))}}
	}
	j, err := r.job(s, c, m)
	m.mu.Lock()
	defer m.mu.Unlock()
	j.Unseen = beyond && !whole && !m.anywhere
	if j.All, j.Paths = m.anywhere || beyond, m.paths; err != nil {
		j.All, j.Paths = false, nil
	}
	l := r.cfg.Artifacts.Look(ctx, s, j, m.saved...)
	if j.All && quiet {
		l.Then(func() { r.jobs.Looked(s.HarnessID, wrote) })
	}
	return l
}

// goesOn reports whether a call is one of those that go on with commands that run beyond their calls.
func (r *Role) goesOn(s run.State, c run.Call) bool {
	t, _ := r.tool(s, c)
	_, goesOn := t.(tool.Continuing)
	return goesOn
}

// logOf is the whole output of a call as an artifact (ART-12): what its fact has shortened and refers to.
func logOf(s run.State, c run.Call, ref events.Ref, now time.Time) events.Artifact {
	return events.Artifact{Type: events.ArtifactLog, Name: c.ID + ".log", Size: ref.Size, SHA256: ref.SHA256, ContentType: "text/plain", CreatedAt: now.UTC(),
		Key: artifact.LogKeyOf(artifact.OwnerOf(s), c.ID), Kept: events.KeptWithFacts, Session: s.Identity.Session, Run: s.HarnessID, Step: c.Step}
}

// withMade says what an attempt made and then how it ended, until the log has taken it. Where the end is not to be said
// any more, because the attempt is not the current one, neither is what it made.
func (r *Role) withMade(ctx context.Context, s run.State, c run.Call, fence uint64, l *capture.Look, at place, end func(run.State, time.Time) []events.Payload) (runlog.Written, error) {
	ref := events.ToolRef{Step: c.Step, Call: c.ID, Tool: c.Tool}
	w, err := r.insist(ctx, s.HarnessID, func(s run.State, now time.Time) []events.Payload {
		ended := end(s, now)
		if len(ended) == 0 {
			return nil
		}
		return append(artifact.Say(s, ref, fence, l.Found), ended...)
	})
	if err != nil {
		return w, err
	}
	if len(w.Facts) > 0 { // else the attempt is not the current one, and what it found is for whoever has that
		l.Commit()
	}
	if _, said := w.Wrote(events.ArtifactSaved); said {
		r.files.Artifacts(w.State, at.Dir)
	}
	if call.NeedsStart(c.Effect) {
		r.files.Log(w.State, c.ID, at.Dir)
	}
	return w, nil
}

// lost says that nobody knows what came of an attempt; what it left in a workspace of this machine is kept.
func (r *Role) lost(ctx context.Context, s run.State, d call.Duty, at place) (runlog.Written, error) {
	return r.withMade(ctx, s, d.Call, d.Call.Fence, r.look(ctx, s, d.Call, anything(at)), at, func(s run.State, _ time.Time) []events.Payload { return call.Lost(s, d) })
}

// cleanPatience bounds how long the end of a run is looked at.
const cleanPatience = 10 * time.Second

// Leave lets go of what is known of the workspace of a run that may have ended, and takes the artifacts out of it where its
// agent wants that (ART-14). The log is asked whether it has: of a run that goes on all stays.
func (r *Role) Leave(runID string) {
	r.mu.Lock()
	dir, clean := r.clean[runID]
	r.mu.Unlock()
	knows := clean || r.cfg.Artifacts != nil && r.cfg.Artifacts.Knows(runID)
	if !knows && !r.files.Knows(runID) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanPatience)
	defer cancel()
	s, err := r.cfg.Ledger.Fresh(ctx, runID)
	if err != nil || !s.Status.Ended() {
		return // the files stay, and the records tell of them
	}
	if r.cfg.Trees == nil && s.Created != nil { // else it may be somebody else's by now
		r.files.Result(s, s.Created.Workspace)
	}
	if !knows {
		return
	}
	r.mu.Lock()
	delete(r.clean, runID)
	r.mu.Unlock()
	if clean {
		_, _ = r.cfg.Artifacts.Clean(s, dir) // what can not be removed stays
	}
	r.cfg.Artifacts.Forget(runID)
	r.jobs.Looked(runID, 0)
}
