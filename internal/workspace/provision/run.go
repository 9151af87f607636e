// Package provision writes the readable files of sessions and runs into their workspaces.
//
// Promises: the files are for agents and people. Nothing is read from them but the run that a folder and a lock file
// belong to and the age of a session; who works in the workspace may change them. They are written through no link and
// never outside of the workspace. Where one cannot be written the run goes on without it.
package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/inspan/inspan/internal/core/agentdir"
	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Files that a workspace is provided with before a call of a run first touches it (WS-16). They are for agents and
// people: nothing is read from them but the name of the run that a folder belongs to, who works there may change them,
// and where they cannot be written the run goes on without.
const (
	tasksFile    = ".harness/tasks.json"
	contextFile  = ".harness/context.md"
	redirectFile = ".harness/redirect.json"
	settingsFile = ".harness/settings.json"
	// artifactsFile is the readable view of a run's artifacts (WS-15).
	artifactsFile = ".harness/artifacts.json"
	runFile       = "run.json"
	resultFile    = "result.json"
	// homeFile names whose home a folder is, homeContext and homeRedirect are there what the others are in a workspace.
	homeFile     = "agent.json"
	homeContext  = "context.md"
	homeRedirect = "redirect.json"
)

const (
	// maxRunFolders is how many folders of runs a workspace may have; a run after them has none.
	maxRunFolders = 10_000
	// maxTaskShown is how much of a task the context file has, in bytes.
	maxTaskShown = 16 << 10
)

// RunFiles writes the files of runs into their workspaces.
type RunFiles struct {
	root string

	mu sync.Mutex
	// runs by id, order is theirs. Guarded by mu.
	runs  map[string]*provided
	order []string
}

// NewRunFiles writes into workspaces below a root.
func NewRunFiles(root string) *RunFiles { return &RunFiles{root: root, runs: map[string]*provided{}} }

// provided is the workspace of one run, at path; folder is below that, empty where the run has none, and may be read
// once done is closed.
type provided struct {
	done   chan struct{}
	path   string
	folder string
}

// begin returns what is known of a run in a workspace; first is true for the one who has to fill it and close done. A
// workspace that was lost and taken again is in a new place, without our files.
func (f *RunFiles) begin(runID, path string) (one *provided, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one, known := f.runs[runID]
	if known && one.path == path {
		return one, false
	}
	if !known && len(f.order) >= maxRuns {
		delete(f.runs, f.order[0])
		f.order = slices.Delete(f.order, 0, 1)
	}
	if !known {
		f.order = append(f.order, runID)
	}
	one = &provided{done: make(chan struct{}), path: path}
	f.runs[runID] = one
	return one, true
}

// Knows reports whether a run has a folder that was made or found here.
func (f *RunFiles) Knows(runID string) bool { return f.folder(runID) != "" }

// folder of a run, empty where it has none yet.
func (f *RunFiles) folder(runID string) string {
	f.mu.Lock()
	one := f.runs[runID]
	f.mu.Unlock()
	if one == nil {
		return ""
	}
	select {
	case <-one.done:
		return one.folder
	default:
		return ""
	}
}

// Provide provides a workspace with its files before a call of a run first touches it, and the homes of the run's
// agents with theirs. It returns when they are there, whichever call writes them. A run on the direct path does
// without.
func (f *RunFiles) Provide(ctx context.Context, s run.State, p workdir.Dir) {
	if s.Created == nil || s.Created.Direct || p.Path == "" || ofPerson(p) {
		return
	}
	one, first := f.begin(s.HarnessID, p.Path)
	if !first {
		select {
		case <-one.done:
		case <-ctx.Done():
		}
		return
	}
	defer close(one.done)
	one.folder = f.provide(s, p)
}

// ofPerson reports whether a workspace is a directory of a person: no files of ours are written there.
func ofPerson(at workdir.Dir) bool {
	_, ok := events.PlaceOf(at.Workspace)
	return ok
}

func (f *RunFiles) provide(s run.State, p workdir.Dir) (folder string) {
	for _, a := range s.Agents {
		f.provideHome(s, a, p.Workspace)
	}
	root, err := workdir.Open(f.root, p.Path)
	if err != nil {
		return "" // the call that opens the sandbox finds out
	}
	defer func() { _ = root.Close() }() // nothing is written through it any more
	if !ownFolder(root) {
		return ""
	}
	if folder = runFolder(root, s); folder != "" {
		relog(root, s, folder)
	}
	files := map[string]any{tasksFile: tasksOf(s), redirectFile: redirectOf(s), settingsFile: settingsOf(s),
		artifactsFile: artifactsOf(s)}
	if _, err := root.Lstat(historyFile); errors.Is(err, fs.ErrNotExist) {
		files[historyFile] = map[string]any{"note": noteOf(s), "messages": []any{}}
	}
	for name, v := range files {
		_ = writeJSON(root, name, v) // see the promise above, here and below
	}
	_ = writeNew(root, contextFile, contextOf(s, folder))
	_ = exclude(root)
	return folder
}

// runFolder finds or makes the folder of a run, .harness/runs/run_NNN with logs and output in it; empty where there is
// none.
func runFolder(root *os.Root, s run.State) (folder string) {
	if info, err := root.Lstat(runsDir); err == nil && !info.IsDir() || root.MkdirAll(runsDir, 0o755) != nil {
		return ""
	}
	for n := 1; n <= maxRunFolders; n++ {
		folder = fmt.Sprintf("%s/run_%03d", runsDir, n)
		err := root.Mkdir(folder, 0o755)
		if errors.Is(err, fs.ErrExist) {
			var of struct {
				Run string `json:"run_id"`
			}
			if b, err := readSmall(root, folder+"/"+runFile); err == nil && json.Unmarshal(b, &of) == nil &&
				of.Run == s.HarnessID {
				return folder
			}
			continue
		}
		if err != nil || root.Mkdir(folder+"/logs", 0o755) != nil || root.Mkdir(folder+"/output", 0o755) != nil ||
			writeJSON(root, folder+"/"+runFile, map[string]any{"note": noteOf(s), "run_id": s.HarnessID,
				"session_id": s.Created.Session}) != nil {
			return ""
		}
		return folder
	}
	return ""
}

// maxRelogged is how many logs of calls are looked for.
const maxRelogged = 1000

// relog writes the logs of calls that have ended and have none: those of another machine, since our files are in no
// snapshot, so that a call which changes nothing else costs none, and those of calls whose toolrunner was lost after
// their end was stored.
func relog(root *os.Root, s run.State, folder string) {
	left := maxRelogged
	for _, c := range run.Backward(s.ToolCallHistory) {
		if left--; left < 0 {
			return
		}
		if c.Outcome == run.OutcomeRefused || !call.NeedsStart(c.Effect) {
			continue
		}
		name := logOf(folder, c.ID)
		if _, err := root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			_ = writeNew(root, name, logText(s, c))
		}
	}
}

func logOf(folder, callID string) string { return folder + "/logs/" + callID + ".log" }

// Log writes the log of a call that has ended, and how the steps of its run stand. It is called while the workspace is
// held.
func (f *RunFiles) Log(s run.State, callID string, at workdir.Dir) {
	folder := f.folder(s.HarnessID)
	if folder == "" || at.Path == "" {
		return
	}
	root, err := workdir.Open(f.root, at.Path)
	if err != nil {
		return
	}
	defer func() { _ = root.Close() }() // nothing is written through it any more
	if !ownFolder(root) {
		return
	}
	_ = writeJSON(root, tasksFile, tasksOf(s))
	for _, c := range run.Backward(s.ToolCallHistory) {
		if c.ID == callID {
			_ = writeNew(root, logOf(folder, callID), logText(s, c))
			return
		}
	}
}

// Artifacts writes the readable view of a run's artifacts. It is for people: where it cannot be written the run goes on
// without.
func (f *RunFiles) Artifacts(s run.State, at workdir.Dir) {
	if at.Path == "" || ofPerson(at) {
		return
	}
	root, err := workdir.Open(f.root, at.Path)
	if err != nil {
		return
	}
	defer func() { _ = root.Close() }() // nothing is written through it any more
	if ownFolder(root) && writeJSON(root, artifactsFile, artifactsOf(s)) == nil {
		_ = exclude(root)
	}
}

// Result writes what a run came to into its folder.
func (f *RunFiles) Result(s run.State, dir string) {
	folder := f.folder(s.HarnessID)
	if folder == "" || !s.Status.Ended() {
		return
	}
	if _, err := os.Lstat(filepath.Join(f.root, filepath.FromSlash(dir))); err != nil {
		return // it went with its run
	}
	root, err := workdir.Open(f.root, dir)
	if err != nil {
		return
	}
	defer func() { _ = root.Close() }() // nothing is written through it any more
	if ownFolder(root) {
		relog(root, s, folder) // where the result is, the logs are
		_ = writeJSON(root, tasksFile, tasksOf(s))
		_ = writeJSON(root, folder+"/output/"+resultFile, map[string]any{"note": noteOf(s), "run_id": s.HarnessID,
			"status": s.Status, "result": s.Result})
	}
}

// logText is the log of a call.
func logText(s run.State, c run.CallRecord) string {
	var b strings.Builder
	fmt.Fprintf(&b, "call %s: %s, step %s, %s, %d ms\n", c.ID, c.CallName, c.Step, c.Outcome, c.DurationMS)
	if c.ResultRef != nil {
		fmt.Fprintf(&b, "%d bytes in all, the whole: inspan artifacts get %s %s\n", c.ResultRef.Size, s.HarnessID,
			artifact.LogKeyOf(artifact.OwnerOf(s), c.ID))
	}
	fmt.Fprintf(&b, "\n%s\n", c.Result)
	return b.String()
}

// provideHome provides the home of an agent that belongs to a role (WS-7, WS-11).
func (f *RunFiles) provideHome(s run.State, a events.Agent, workspace string) {
	if a.Project == "" {
		return
	}
	at, err := agentdir.Path(agentdir.ID{Project: a.Project, Role: a.Role, Name: a.Name})
	if err != nil {
		return
	}
	root, err := workdir.Open(f.root, at)
	if err != nil {
		return
	}
	defer func() { _ = root.Close() }() // nothing is written through it any more
	_ = writeJSON(root, homeFile, map[string]any{"note": noteOf(s), "project": a.Project, "role": a.Role, "name": a.Name,
		"digest": a.Digest})
	to := redirectOf(s)
	to["workspace"] = path.Join("..", "..", "..", workspace)
	_ = writeJSON(root, homeRedirect, to)
	_ = writeNew(root, homeContext, contextOf(s, ""))
}
