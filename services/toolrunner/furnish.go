package toolrunner

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
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Files that a workspace is provided with before a call of a run first touches it (WS-16). They are for agents and people: nothing is
// read from them but the name of the run that a folder belongs to, whoever works there may change them, and where they can
// not be written the run goes on without.
const (
	tasksFile    = ".harness/tasks.json"
	contextFile  = ".harness/context.md"
	redirectFile = ".harness/redirect.json"
	settingsFile = ".harness/settings.json"
	runFile      = "run.json"
	resultFile   = "result.json"
	// homeFile tells whose home a folder is, homeContext and homeRedirect are there what the others are in a workspace.
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

// furniture remembers the folders of runs whose workspace was provided with its files.
type furniture struct {
	mu sync.Mutex
	// runs by id, order is theirs. Guarded by mu.
	runs  map[string]*furnished
	order []string
}

// furnished is one run's, in the workspace at path; folder is below that, empty where the run has none, and may be read once
// done is closed.
type furnished struct {
	done   chan struct{}
	path   string
	folder string
}

// begin returns what is known of a run in a workspace; first is true for the one who has to fill it and close done. A
// workspace that was lost and taken again is in a new place, without our files.
func (f *furniture) begin(runID, path string) (one *furnished, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one, known := f.runs[runID]
	if known && one.path == path {
		return one, false
	}
	if f.runs == nil {
		f.runs = map[string]*furnished{}
	}
	if !known && len(f.order) >= maxDressed {
		delete(f.runs, f.order[0])
		f.order = slices.Delete(f.order, 0, 1)
	}
	if !known {
		f.order = append(f.order, runID)
	}
	one = &furnished{done: make(chan struct{}), path: path}
	f.runs[runID] = one
	return one, true
}

// folder of a run, empty where it has none yet.
func (f *furniture) folder(runID string) string {
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

// furnish provides a workspace with its files before a call of a run first touches it, and the homes of the run's agents with
// theirs. It returns when they are there, whoever writes them. A run on the direct path does without.
func (r *Role) furnish(ctx context.Context, s run.State, p place) {
	if s.Created == nil || s.Created.Direct || p.Path == "" {
		return
	}
	one, first := r.furniture.begin(s.HarnessID, p.Path)
	if !first {
		select {
		case <-one.done:
		case <-ctx.Done():
		}
		return
	}
	defer close(one.done)
	one.folder = r.provide(s, p)
}

func (r *Role) provide(s run.State, p place) (folder string) {
	for _, a := range s.Agents {
		r.furnishHome(s, a, p.Workspace)
	}
	root, err := workdir.Open(r.cfg.Sandboxes.Root(), p.Path)
	if err != nil {
		return "" // whoever opens the sandbox finds out
	}
	defer func() { _ = root.Close() }() // nothing is written through it any more
	if !ownFolder(root) {
		return ""
	}
	folder, fresh := runFolder(root, s)
	if folder != "" && fresh {
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

// ownFolder makes the folder of our files in a workspace, and reports whether it is a folder there and no link.
func ownFolder(root *os.Root) bool {
	info, err := root.Lstat(historyDir)
	if errors.Is(err, fs.ErrNotExist) {
		return root.Mkdir(historyDir, 0o755) == nil
	}
	return err == nil && info.IsDir()
}

// runFolder finds or makes the folder of a run, .harness/runs/run_NNN with logs and output in it; empty where there is none. made
// is true where it was not there.
func runFolder(root *os.Root, s run.State) (folder string, made bool) {
	if info, err := root.Lstat(runsDir); err == nil && !info.IsDir() || root.MkdirAll(runsDir, 0o755) != nil {
		return "", false
	}
	for n := 1; n <= maxRunFolders; n++ {
		folder = fmt.Sprintf("%s/run_%03d", runsDir, n)
		err := root.Mkdir(folder, 0o755)
		if errors.Is(err, fs.ErrExist) {
			var of struct {
				Run string `json:"run_id"`
			}
			if b, err := readSmall(root, folder+"/"+runFile); err == nil && json.Unmarshal(b, &of) == nil && of.Run == s.HarnessID {
				return folder, false
			}
			continue
		}
		if err != nil || root.Mkdir(folder+"/logs", 0o755) != nil || root.Mkdir(folder+"/output", 0o755) != nil ||
			writeJSON(root, folder+"/"+runFile, map[string]any{"note": noteOf(s), "run_id": s.HarnessID, "session_id": s.Created.Session}) != nil {
			return "", false
		}
		return folder, true
	}
	return "", false
}

// maxRelogged is how many logs of calls are written anew.
const maxRelogged = 1000

// relog writes the logs of the calls that have ended into a folder that has none of them, as on a machine that took the
// workspace over: our files are in no snapshot, so that a call which changes nothing else costs none.
func relog(root *os.Root, s run.State, folder string) {
	left := maxRelogged
	for _, c := range s.ToolCallHistory.Backward() {
		if left--; left < 0 {
			return
		}
		if c.Outcome != run.OutcomeRefused {
			_ = writeNew(root, folder+"/logs/"+c.ID+".log", logText(s, c))
		}
	}
}

// jot writes the log of a call that has ended, and how the steps of its run stand. It is called while the workspace is held.
func (r *Role) jot(s run.State, callID string, at place) {
	folder := r.furniture.folder(s.HarnessID)
	if folder == "" || at.Path == "" {
		return
	}
	root, err := workdir.Open(r.cfg.Sandboxes.Root(), at.Path)
	if err != nil {
		return
	}
	defer func() { _ = root.Close() }() // nothing is written through it any more
	if !ownFolder(root) {
		return
	}
	_ = writeJSON(root, tasksFile, tasksOf(s))
	for _, c := range s.ToolCallHistory.Backward() {
		if c.ID == callID {
			_ = writeNew(root, folder+"/logs/"+callID+".log", logText(s, c))
			return
		}
	}
}

// writeResult writes what a run came to into its folder.
func (r *Role) writeResult(s run.State, dir string) {
	folder := r.furniture.folder(s.HarnessID)
	if folder == "" || !s.Status.Ended() {
		return
	}
	if _, err := os.Lstat(filepath.Join(r.cfg.Sandboxes.Root(), filepath.FromSlash(dir))); err != nil {
		return // it went with its run
	}
	root, err := workdir.Open(r.cfg.Sandboxes.Root(), dir)
	if err != nil {
		return
	}
	defer func() { _ = root.Close() }() // nothing is written through it any more
	if ownFolder(root) {
		_ = writeJSON(root, tasksFile, tasksOf(s))
		_ = writeJSON(root, folder+"/output/"+resultFile, map[string]any{"note": noteOf(s), "run_id": s.HarnessID, "status": s.Status, "result": s.Result})
	}
}

// logText is the log of a call.
func logText(s run.State, c run.CallRecord) string {
	var b strings.Builder
	fmt.Fprintf(&b, "call %s: %s, step %s, %s, %d ms\n", c.ID, c.CallName, c.Step, c.Outcome, c.DurationMS)
	if c.ResultRef != nil {
		fmt.Fprintf(&b, "%d bytes in all, the whole: inspan artifacts get %s %s\n", c.ResultRef.Size, s.HarnessID, artifact.LogKeyOf(artifact.OwnerOf(s), c.ID))
	}
	fmt.Fprintf(&b, "\n%s\n", c.Result)
	return b.String()
}

// writeNew puts a text in the place of whatever has that name.
func writeNew(root *os.Root, name, text string) error {
	if err := root.RemoveAll(name); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// furnishHome provides the home of an agent that belongs to a role (WS-7, WS-11).
func (r *Role) furnishHome(s run.State, a events.Agent, workspace string) {
	if a.Project == "" {
		return
	}
	at, err := agentdir.Path(agentdir.ID{Project: a.Project, Role: a.Role, Name: a.Name})
	if err != nil {
		return
	}
	root, err := workdir.Open(r.cfg.Sandboxes.Root(), at)
	if err != nil {
		return
	}
	defer func() { _ = root.Close() }() // nothing is written through it any more
	_ = writeJSON(root, homeFile, map[string]any{"note": noteOf(s), "project": a.Project, "role": a.Role, "name": a.Name, "digest": a.Digest})
	to := redirectOf(s)
	to["workspace"] = path.Join("..", "..", "..", workspace)
	_ = writeJSON(root, homeRedirect, to)
	_ = writeNew(root, homeContext, contextOf(s, ""))
}

func noteOf(s run.State) string {
	return "for agents and people: inspan export " + s.HarnessID + " tells what is true"
}

func artifactsOf(s run.State) map[string]any {
	return map[string]any{"note": "for people: inspan artifacts list " + s.HarnessID + " tells what is true",
		"run_id": s.HarnessID, "artifacts": artifact.Latest(s)}
}

// tasksOf are the steps of a run as they stand.
func tasksOf(s run.State) map[string]any {
	type task struct {
		ID          string            `json:"id"`
		Description string            `json:"description"`
		Agent       string            `json:"agent"`
		Needs       []string          `json:"needs,omitempty"`
		Status      events.StepStatus `json:"status"`
	}
	tasks := []task{}
	if s.Plan != nil {
		for _, st := range s.Plan.Steps {
			tasks = append(tasks, task{st.ID, st.Description, st.AssignedAgent, st.Dependencies, st.Status})
		}
	}
	return map[string]any{"note": noteOf(s), "run_id": s.HarnessID, "work_id": s.Created.WorkID, "status": s.Status, "tasks": tasks}
}

// redirectOf says where the shared truth about work is (WS-10): what is in a workspace is never it.
func redirectOf(s run.State) map[string]any {
	station := s.Identity.Station
	entry := func(bucket, key string) map[string]string {
		return map[string]string{"bucket": bucket, "key": station + "." + key}
	}
	out := map[string]any{"note": noteOf(s), "database": "nats-jetstream", "station": station, "facts": topology.Log(station),
		"run": entry(topology.StateBucket, "run."+s.HarnessID), "work_id": s.Created.WorkID,
		"commands": []string{"inspan export " + s.HarnessID, "inspan logs " + s.HarnessID, "inspan runs"}}
	if s.Created.Session != "" {
		out["session"] = entry(topology.SessionBucket, "session."+s.Created.Session)
	}
	return out
}

// settingsOf is what the agents of a run are held to besides the rules of the station.
func settingsOf(s run.State) map[string]any {
	type settings struct {
		Project  string        `json:"project,omitempty"`
		Role     string        `json:"role,omitempty"`
		Digest   string        `json:"digest"`
		Tools    []string      `json:"tools"`
		Guards   []events.Rule `json:"guards"`
		Hooks    []string      `json:"hooks"`
		Sandbox  string        `json:"sandbox,omitempty"`
		Autonomy int           `json:"autonomy"`
		MaxSteps int           `json:"max_steps"`
	}
	all := map[string]settings{}
	for name, a := range s.Agents {
		one := settings{a.Project, a.Role, a.Digest, a.Tools, a.Guards, []string{}, a.Sandbox.Mode, s.Options.Autonomy, s.Options.MaxSteps}
		for _, h := range a.Hooks {
			one.Hooks = append(one.Hooks, h.ID)
		}
		all[name] = one
	}
	return map[string]any{"note": noteOf(s), "run_id": s.HarnessID, "agents": all}
}

// contextOf is what an agent reads that began without its usual prompt (WS-11): who it is, what it is to do, and where it
// finds out how far that is.
func contextOf(s run.State, folder string) string {
	c := s.Created
	var b strings.Builder
	fmt.Fprintf(&b, "# If you began without instructions, read this\n\nStation %s, run %s, workspace %s.\n", s.Identity.Station, s.HarnessID, c.Workspace)
	if c.Session != "" {
		fmt.Fprintf(&b, "Session %s: what was said before is in %s.\n", c.Session, historyFile)
	}
	if c.WorkID != "" {
		fmt.Fprintf(&b, "Work item %s.\n", c.WorkID)
	}
	if a, ok := s.Agent(c.Agent); ok && a.Project != "" {
		fmt.Fprintf(&b, "You are %s, role %s of project %s.\n", a.Name, a.Role, a.Project)
	} else {
		fmt.Fprintf(&b, "You are %s.\n", c.Agent)
	}
	task := c.Task
	if len(task) > maxTaskShown {
		task = strings.ToValidUTF8(task[:maxTaskShown], "") + "\n... cut off; the whole: inspan export " + s.HarnessID
	}
	fmt.Fprintf(&b, "\n## The task\n\n%s\n\n## How far it is\n\n%s has the steps and how they stand, %s what was made.\n", task, tasksFile, artifactsFile)
	if folder != "" {
		fmt.Fprintf(&b, "Each call that has ended has its output in %s/logs: do not do again what is done there.\n", folder)
	}
	fmt.Fprintf(&b, "Files here may be behind. The truth is in the station; %s tells where, and %s what you may do.\nGo on with the first step that is not completed.\n", redirectFile, settingsFile)
	return b.String()
}
