package provision

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// house is a root below which workspaces are provided.
func house(t *testing.T) (r *RunFiles, sessions *SessionFiles, kv kernel.KV, root string) {
	t.Helper()
	st, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	root, kv = filepath.Join(t.TempDir(), "work"), st.KV(topology.SessionBucket)
	return NewRunFiles(root), NewSessionFiles(root, kv, st.Blobs()), kv, root
}

// tenant is a run in a session.
func tenant(id string) run.State {
	return run.State{HarnessID: id, Identity: events.Identity{Station: "s1", Run: id}, Status: events.Running,
		Created: &events.RunCreatedData{Agent: "nux", Task: "fix the door", Session: "s", WorkID: "gt-1", Work: &events.WorkRef{Work: "gt-1", Epoch: 1}, Workspace: "session/s"},
		Agents:  map[string]events.Agent{"nux": {Name: "nux", Project: "web", Role: "polecats", Digest: "d", Guards: []events.Rule{{ID: "g1", Action: "ask"}}, Hooks: []events.Hook{{ID: "h1"}}}},
		Plan:    &run.Plan{Steps: []*run.Step{{ID: "main", Description: "mend", AssignedAgent: "nux", Status: events.StepIsRunning}}}}
}

var sessionDir = workdir.Dir{Workspace: "session/s", Path: "session/s"}

// tell reads a JSON file.
func tell(t *testing.T, at ...string) map[string]any {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(at...))
	var v map[string]any
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		t.Errorf("%s: %v", filepath.Join(at...), err)
	}
	return v
}

func TestRunFiles(t *testing.T) {
	t.Parallel()
	r, _, _, root := house(t)
	work := filepath.Join(root, "session", "s")
	r.Provide(t.Context(), tenant("r1"), sessionDir)
	t.Run("WS-15 a workspace has its steps, its conversation and its artifacts as files, and each run a folder with logs and output", func(t *testing.T) {
		if v := tell(t, work, tasksFile); v["run_id"] != "r1" || v["work_id"] != "gt-1" || len(v["tasks"].([]any)) != 1 || v["tasks"].([]any)[0].(map[string]any)["status"] != "running" {
			t.Errorf("%v", v)
		}
		for _, name := range []string{historyFile, artifactsFile} {
			tell(t, work, name)
		}
		for _, name := range []string{"logs", "output"} {
			if info, err := os.Stat(filepath.Join(work, runsDir, "run_001", name)); err != nil || !info.IsDir() {
				t.Errorf("%s: %v", name, err)
			}
		}
		if v := tell(t, work, runsDir, "run_001", runFile); v["run_id"] != "r1" {
			t.Errorf("%v", v)
		}
	})
	t.Run("WS-15 a run keeps its folder over a restart, and the next one has its own", func(t *testing.T) {
		r.Provide(t.Context(), tenant("r2"), sessionDir)
		again := NewRunFiles(root)
		again.Provide(t.Context(), tenant("r1"), sessionDir)
		again.Provide(t.Context(), tenant("r1"), sessionDir)
		if got := again.folder("r1"); got != runsDir+"/run_001" {
			t.Errorf("r1 has %q", got)
		}
		if got := r.folder("r2"); got != runsDir+"/run_002" {
			t.Errorf("r2 has %q", got)
		}
	})
	t.Run("WS-15 WS-16 where a workspace is taken over, by another process or again by this one, the logs of its calls are there again", func(t *testing.T) {
		s := tenant("r3")
		s.ToolCallHistory = run.Append(s.ToolCallHistory, run.CallRecord{ID: "c1", CallName: "bash", Outcome: run.OutcomeFinished, Result: "all is well"})
		s.ToolCallHistory = run.Append(s.ToolCallHistory, run.CallRecord{ID: "c2", CallName: "bash", Outcome: run.OutcomeRefused})
		for _, at := range []string{".trees/session=s/2-a/tree", ".trees/session=s/4-a/tree"} {
			r.Provide(t.Context(), s, workdir.Dir{Workspace: "session/s", Path: at})
			folder := filepath.Join(root, at, runsDir, "run_001")
			if b, err := os.ReadFile(filepath.Join(folder, "logs", "c1.log")); err != nil || !strings.Contains(string(b), "all is well") {
				t.Errorf("%q, %v", b, err)
			}
			if _, err := os.Stat(filepath.Join(folder, "logs", "c2.log")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a call that was refused has a log: %v", err)
			}
			s.ToolCallHistory = run.Append(s.ToolCallHistory, run.CallRecord{ID: "c3", CallName: "bash", Outcome: run.OutcomeFinished, Result: "later"})
			r.Log(s, "c3", workdir.Dir{Workspace: "session/s", Path: at})
			if _, err := os.Stat(filepath.Join(folder, "logs", "c3.log")); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("WS-15 the log of a call and what the run came to are in its folder", func(t *testing.T) {
		s := tenant("r1")
		s.ToolCallHistory = run.Append(s.ToolCallHistory, run.CallRecord{ID: "c1", CallName: "bash", Step: "main", Outcome: run.OutcomeFinished, Result: "all is well"})
		r.Log(s, "c1", sessionDir)
		if b, err := os.ReadFile(filepath.Join(work, runsDir, "run_001", "logs", "c1.log")); err != nil || !strings.Contains(string(b), "bash") || !strings.Contains(string(b), "all is well") {
			t.Errorf("%q, %v", b, err)
		}
		result := filepath.Join(work, runsDir, "run_001", "output", resultFile)
		r.Result(s, "session/s")
		if _, err := os.Stat(result); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a run that goes on has a result: %v", err)
		}
		s.Status, s.Result = events.Completed, &events.Result{Output: "mended", Success: true}
		r.Result(s, "session/s")
		if v := tell(t, result); v["status"] != "completed" || v["run_id"] != "r1" {
			t.Errorf("%v", v)
		}
	})
	t.Run("WS-15 a log that a crash kept from being written is there before the next call and before the result", func(t *testing.T) {
		r, _, _, root := house(t)
		work := filepath.Join(root, "session", "s")
		s := tenant("r4")
		log := func(id string) string {
			return filepath.Join(work, strings.TrimPrefix(r.folder("r4"), "/"), "logs", id+".log")
		}
		r.Provide(t.Context(), s, sessionDir)
		s.ToolCallHistory = run.Append(s.ToolCallHistory, run.CallRecord{ID: "c1", CallName: "bash", Outcome: run.OutcomeFinished, Effect: "once", Result: "all is well"})
		again := NewRunFiles(root)
		again.Provide(t.Context(), s, sessionDir)
		if b, err := os.ReadFile(log("c1")); err != nil || !strings.Contains(string(b), "all is well") {
			t.Errorf("before the next call: %q, %v", b, err)
		}
		s.ToolCallHistory = run.Append(s.ToolCallHistory, run.CallRecord{ID: "c2", CallName: "bash", Outcome: run.OutcomeFinished, Effect: "once", Result: "so it is"})
		s.ToolCallHistory = run.Append(s.ToolCallHistory, run.CallRecord{ID: "c3", CallName: "read", Outcome: run.OutcomeFinished, Effect: "read", Result: "text"})
		s.Status, s.Result = events.Completed, &events.Result{Success: true}
		again.Result(s, "session/s")
		if b, err := os.ReadFile(log("c2")); err != nil || !strings.Contains(string(b), "so it is") {
			t.Errorf("before the result: %q, %v", b, err)
		}
		if _, err := os.Stat(log("c3")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a call that read has a log: %v", err)
		}
		if parts, err := filepath.Glob(filepath.Join(work, harnessDir, "*.part")); err != nil || len(parts) > 0 {
			t.Errorf("%v is left, %v", parts, err)
		}
	})
	t.Run("WS-10 a file leads to the shared truth about the work", func(t *testing.T) {
		v := tell(t, work, redirectFile)
		if e := v["run"].(map[string]any); e["bucket"] != topology.StateBucket || e["key"] != "s1.run.r1" || v["facts"] != topology.Log("s1") {
			t.Errorf("%v", v)
		}
		if e, ok := v["work"].(map[string]any); !ok || e["bucket"] != topology.SessionBucket || e["key"] != "s1.work.gt-1" {
			t.Errorf("%v", v)
		}
	})
	t.Run("WS-11 an agent that began without instructions finds who it is, its task and what to do", func(t *testing.T) {
		b, err := os.ReadFile(filepath.Join(work, contextFile))
		for _, want := range []string{"nux, role polecats of project web", "fix the door", "run r1", "Session s", "Work item gt-1", tasksFile, redirectFile} {
			if err != nil || !strings.Contains(string(b), want) {
				t.Errorf("%q is missing: %v\n%s", want, err, b)
			}
		}
	})
	t.Run("WS-16 a workspace has what its agents are held to", func(t *testing.T) {
		a := tell(t, work, settingsFile)["agents"].(map[string]any)["nux"].(map[string]any)
		if a["role"] != "polecats" || len(a["guards"].([]any)) != 1 || a["hooks"].([]any)[0] != "h1" {
			t.Errorf("%v", a)
		}
	})
	t.Run("WS-7 WS-11 an agent with a role has a home that leads to where it works", func(t *testing.T) {
		at := filepath.Join(root, "web", "polecats", "nux")
		if v := tell(t, at, homeFile); v["name"] != "nux" || v["role"] != "polecats" || v["project"] != "web" {
			t.Errorf("%v", v)
		}
		to, _ := tell(t, at, homeRedirect)["workspace"].(string)
		if same, err := filepath.EvalSymlinks(filepath.Join(at, to)); err != nil || !sameFile(t, same, work) {
			t.Errorf("%q leads to %q, %v", to, same, err)
		}
		if b, err := os.ReadFile(filepath.Join(at, homeContext)); err != nil || !strings.Contains(string(b), "fix the door") {
			t.Errorf("%q, %v", b, err)
		}
	})
	t.Run("WS-15 C30 a run on the direct path pays for none of it", func(t *testing.T) {
		s := tenant("r9")
		s.Created.Direct, s.Created.Workspace = true, "run/r9"
		r.Provide(t.Context(), s, workdir.Dir{Workspace: "run/r9", Path: "run/r9"})
		if _, err := os.Lstat(filepath.Join(root, "run", "r9")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v", err)
		}
	})
}

func sameFile(t *testing.T, a, b string) bool {
	t.Helper()
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// TestHostileHarness puts something else in the place of our files: the run goes on, and nothing outside is touched.
func TestHostileHarness(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(work, outside string) error{
		"the folder is a file":           func(work, _ string) error { return os.WriteFile(filepath.Join(work, harnessDir), []byte("x"), 0o644) },
		"the folder is a link outside":   func(work, outside string) error { return os.Symlink(outside, filepath.Join(work, harnessDir)) },
		"the folder is a link inside":    func(work, _ string) error { return os.Symlink("src", filepath.Join(work, harnessDir)) },
		"the folder is a link to itself": func(work, _ string) error { return os.Symlink(harnessDir, filepath.Join(work, harnessDir)) },
		"the folder of runs is a file":   inHarness(func(at, _ string) error { return os.WriteFile(filepath.Join(at, "runs"), []byte("x"), 0o644) }),
		"the folder of runs is a link":   inHarness(func(at, outside string) error { return os.Symlink(outside, filepath.Join(at, "runs")) }),
		"a run's folder is a link": inHarness(func(at, outside string) error {
			return errors.Join(os.Mkdir(filepath.Join(at, "runs"), 0o755), os.Symlink(outside, filepath.Join(at, "runs", "run_001")))
		}),
		"a file is a link": inHarness(func(at, outside string) error {
			return os.Symlink(filepath.Join(outside, "kept"), filepath.Join(at, "tasks.json"))
		}),
		"a file is a pipe":   inHarness(func(at, _ string) error { return syscall.Mkfifo(filepath.Join(at, "tasks.json"), 0o644) }),
		"a file is a folder": inHarness(func(at, _ string) error { return os.MkdirAll(filepath.Join(at, "context.md", "x"), 0o755) }),
		"a run's mark is a pipe": inHarness(func(at, _ string) error {
			return errors.Join(os.MkdirAll(filepath.Join(at, "runs", "run_001"), 0o755), syscall.Mkfifo(filepath.Join(at, "runs", "run_001", "run.json"), 0o644))
		}),
		"nothing may be written": inHarness(func(at, _ string) error { return os.Chmod(at, 0o500) }),
	} {
		t.Run("WS-15 SAFE-12 "+name, func(t *testing.T) {
			t.Parallel()
			r, sessions, kv, root := house(t)
			work, outside := filepath.Join(root, "session", "s"), t.TempDir()
			if err := os.MkdirAll(filepath.Join(work, "src"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(outside, "kept"), []byte("mine"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := plant(work, outside); err != nil {
				t.Fatal(err)
			}
			s := tenant("r1")
			s.Created.SessionFence = 1
			b, err := json.Marshal(events.Session{ID: "s", Fence: 1, Born: 1})
			if err == nil {
				err = kv.Put(t.Context(), "session.s", b)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := sessions.Write(t.Context(), s, sessionDir, nil); err != nil {
				t.Errorf("the run is held up: %v", err)
			}
			r.Provide(t.Context(), s, sessionDir)
			s.ToolCallHistory = run.Append(s.ToolCallHistory, run.CallRecord{ID: "c1", CallName: "bash"})
			r.Log(s, "c1", sessionDir)
			r.Artifacts(s, sessionDir)
			s.Status = events.Completed
			r.Result(s, "session/s")
			found := map[string]string{}
			for _, dir := range []string{outside, filepath.Join(work, "src")} {
				all, err := os.ReadDir(dir)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range all {
					b, err := os.ReadFile(filepath.Join(dir, e.Name()))
					if err != nil {
						t.Error(err)
					}
					found[e.Name()] = string(b)
				}
			}
			if !maps.Equal(found, map[string]string{"kept": "mine"}) {
				t.Errorf("outside of the folder there is now %v", found)
			}
			if _, err := os.Lstat(filepath.Join(work, lockFile)); err != nil {
				t.Errorf("the files beside it are not written: %v", err)
			}
		})
	}
}

func inHarness(do func(at, outside string) error) func(work, outside string) error {
	return func(work, outside string) error {
		at := filepath.Join(work, harnessDir)
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}
		return do(at, outside)
	}
}
