// Package preview shows what calls at gates would change, for whoever decides about them.
//
// Promises: a preview decides nothing and changes nothing. It reads files and repositories of workspaces that this
// toolrunner holds, with no program but git and nothing that a repository names. A gate has one preview at most, and
// one that was answered gets none.
package preview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/gitwork/gitcall"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// Limits of a preview.
const (
	// maxPreview is the most bytes of a diff that are stored.
	maxPreview = 256 << 10
	// previewTime is how long the reading of a workspace may take.
	previewTime = time.Minute
	// previewTries is how often a gate is passed on to reach the toolrunner that holds the workspace.
	previewTries = 20
)

// errHeldElsewhere means that this toolrunner may not read the workspace of a run.
var errHeldElsewhere = errors.New("no toolrunner that received the gate holds the workspace")

// Config is what previews are made with.
type Config struct {
	Ledger     *runlog.Ledger
	Blobs      kernel.Blobs
	Workspaces workspace.Workspaces
	// Root is the directory of the workspaces.
	Root string
	// Find returns the tool of a call.
	Find func(run.State, run.Call) (tool.Tool, bool)
	Git  *gitcall.Calls
	// Mask takes the secrets out of a diff.
	Mask func(string) string
}

// Previewer stores the diff and one event for each gate whose call has a preview.
type Previewer struct{ cfg Config }

// New makes a previewer.
func New(cfg Config) *Previewer { return &Previewer{cfg} }

// Serve shows what the call at the gate that an event opened would change, unless that was shown or the gate is closed.
func (p *Previewer) Serve(ctx context.Context, h runlog.ReceivedEvent) error {
	gate, c, t := p.find(h.State, h.Sequence)
	if t == nil || c.Parent != "" { // the arguments of a program of others are its own
		return nil
	}
	d := &events.CallPreviewedData{Event: "call_previewed",
		ToolRef: events.ToolRef{Step: c.Step, Call: c.ID, Tool: c.Tool},
		Gate:    gate.ID, ProposalHash: gate.Hash}
	diff, seen, err := p.diff(ctx, h.State, *c, t)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errHeldElsewhere) && h.Deliveries < previewTries:
		return kernel.Busy(h.Deliveries)
	case err != nil:
		d.Reason = call.ClipError(p.cfg.Mask(tool.Visible(err.Error())))
	default:
		d.Seen = seen
		if err := p.store(ctx, d, p.cfg.Mask(strings.ToValidUTF8(diff, "\uFFFD"))); err != nil {
			return err
		}
	}
	_, err = p.cfg.Ledger.Write(ctx, h.Run, func(s run.State, _ time.Time) ([]events.Payload, error) {
		if g := s.Gate(gate.ID); s.Status.Ended() || g == nil || g.Status != run.GatePending || g.Preview != nil {
			return nil, nil
		}
		return []events.Payload{d}, nil
	})
	return err
}

// find returns the gate that an event opened, its call and the tool; the tool is nil where there is nothing to show.
func (p *Previewer) find(s run.State, opened uint64) (*run.Gate, *run.Call, tool.Previewer) {
	for _, g := range s.Waiting() {
		c := s.Open[g.CallID]
		if g.Sequence != opened || g.Preview != nil || c == nil || s.Created == nil || s.Status.Ended() {
			continue
		}
		if found, ok := p.cfg.Find(s, *c); ok {
			if t, ok := found.(tool.Previewer); ok {
				return g, c, t
			}
		}
	}
	return nil, nil, nil
}

// diff reads the workspace where this toolrunner may do so; seen names what it read.
func (p *Previewer) diff(ctx context.Context, s run.State, c run.Call,
	t tool.Previewer) (diff, seen string, err error) {
	input, err := runlog.Input(ctx, p.cfg.Blobs, c)
	if err != nil {
		return "", "", err
	}
	at := p.cfg.Workspaces.Here(s.Created.Workspace)
	if p.cfg.Workspaces.Trees != nil {
		if !p.cfg.Workspaces.Trees.Holds(s.HarnessID) { // a preview is no reason to take a workspace over
			return "", "", errHeldElsewhere
		}
		at, err = p.cfg.Workspaces.Acquire(ctx, s.Created.Workspace, s.HarnessID, c.Step, func(runID, step string) bool {
			return runID == s.HarnessID && call.StepEnded(s, step)
		})
		if err != nil {
			return "", "", fmt.Errorf("%w: %w", errHeldElsewhere, err)
		}
		defer at.Release()
	}
	if at.Broken != nil {
		return "", "", at.Broken
	}
	limited, stop := context.WithTimeout(ctx, previewTime)
	defer stop()
	files := at.Reader(limited, p.cfg.Root)
	read := files.Read
	if p.cfg.Workspaces.Trees == nil && unused(s) {
		read = func(name string) ([]byte, error) {
			b, err := files.Read(name)
			if errors.Is(err, workspace.ErrMissing) {
				err = fs.ErrNotExist // the call makes the workspace
			}
			return b, err
		}
	}
	see := tool.View{Read: read}
	if show := p.cfg.Git.Preview(s, at.Dir); show != nil {
		see.Git = func(ctx context.Context, name string, input json.RawMessage) (string, error) {
			shown, err := show(ctx, name, input)
			files.Note(shown.Seen)
			return shown.Text, err
		}
	}
	diff, err = t.Preview(limited, input, see)
	if limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("it took longer than %s", previewTime)
	}
	return diff, files.Digest(), err
}

// unused reports whether a run begins with an empty workspace that no call of it has used yet.
func unused(s run.State) bool {
	return s.TotalToolCalls == 0 && s.CallsHeld == 0 && s.Created.Session == "" && s.Created.Git == nil &&
		s.Created.ForkOf == nil
}

// store stores a diff, or its beginning, and names it in an event.
func (p *Previewer) store(ctx context.Context, d *events.CallPreviewedData, diff string) error {
	if diff == "" {
		d.Reason = "it changes nothing"
		return nil
	}
	whole := len(diff)
	diff = lines(diff, maxPreview)
	d.Truncated, d.Head = len(diff) < whole, lines(diff, events.MaxPreview)
	ref, err := p.cfg.Blobs.Put(ctx, "preview", []byte(diff))
	if err != nil {
		return fmt.Errorf("store a preview: %w", err)
	}
	d.Diff = &ref
	return nil
}

// lines are the first lines of a text that have at most so many bytes together.
func lines(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:strings.LastIndexByte(text[:most], '\n')+1]
}
