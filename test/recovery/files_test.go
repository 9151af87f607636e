package recovery

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// keeper writes a file and a repository, publishes its branch, is put off, and then reads what it wrote.
const keeper = `turns:
  - when: {turn: 1}
    calls:
      - {name: write, input: {path: notes.md, content: "kept for later"}}
      - {name: bash, input: {command: "git init -q -b main . && git add -A && git -c user.name=a -c user.email=a@b commit -qm one"}}
  - when: {turn: 2}
    calls:
      - {name: git_publish, input: {branch: main}}
  - when: {turn: 3, attempt: 1}
    error: {class: transient, status: 529, message: overloaded, retry_after: 4s}
  - when: {turn: 3, attempt: 2}
    calls:
      - {name: bash, input: {command: "cat notes.md && git log --format=%s && ls .harness/runs/run_001/logs"}}
  - when: {turn: 4}
    text: "I read it again."
`

func (p *place) keeps() {
	p.t.Helper()
	agent := "---\nname: keeper\ndescription: A test agent\nversion: 1\nmodel: scripted/keeper\ntools: [write, bash, git_publish]\nharness:\n  enabled: true\n  timeout: 20m\nsandbox:\n  mode: host\n  network: true\n---\nDo the task.\n"
	for file, text := range map[string]string{"agents/keeper.prompt": agent, "scripts/keeper.yaml": keeper} {
		if err := os.WriteFile(filepath.Join(p.dir, file), []byte(text), 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
	p.mode = "follow"
}

// park starts the run, and pauses it once it has published and was put off.
func (p *place) park(task events.Task) run.State {
	p.t.Helper()
	p.start(task)
	p.await(task.ID, "put off", func(s run.State) bool {
		return s.Turns().Len() == 2 && s.Plan != nil && s.Plan.Steps[0].Attempt == 1
	})
	if _, err := p.c.Control(p.ctx(), task.ID, events.Control{Action: "pause", By: "anna"}); err != nil {
		p.t.Fatal(err)
	}
	return p.await(task.ID, "paused", func(s run.State) bool { return s.Status == events.Paused })
}

// goesOn resumes the run and wants it to find the files that it had.
func (p *place) goesOn(id string) {
	p.t.Helper()
	p.await(id, "paused", func(s run.State) bool { return s.Status == events.Paused })
	if _, err := p.c.Control(p.ctx(), id, events.Control{Action: "resume", By: "anna"}); err != nil {
		p.t.Fatal(err)
	}
	s := p.await(id, "ended", ended)
	last := s.ToolCallHistory.At(s.ToolCallHistory.Len() - 1)
	if s.Status != events.Completed || !strings.Contains(last.Result, "kept for laterone\nc1-1.log\n") {
		p.t.Errorf("%s: %s, the call says %q", p.name, s.Status, last.Result)
	}
	if out := p.do(0, "artifacts", "get", id, "notes.md", "--stdout"); !strings.Contains(out, "kept for later") {
		p.t.Errorf("%s: the artifact is %q", p.name, out)
	}
	if out := p.do(0, "branches", "list"); !strings.Contains(out, "main") {
		p.t.Errorf("%s: no branch main in %q", p.name, out)
	}
	to := filepath.Join(p.t.TempDir(), "branch")
	p.do(0, "branches", "get", "run/"+id, "main", "--to", to)
}

func TestFilesFollow(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab")
	p.keeps()
	p.up()
	p.park(events.Task{ID: "files", Agent: "keeper", Task: "keep"})
	t.Run("EVT-9 a bundle has the files, artifacts and branches of a run, which goes on with them at another station", func(t *testing.T) {
		file := filepath.Join(p.dir, "files.bundle")
		if out := p.do(0, "export", "files", "--bundle", file, "--fork"); !strings.Contains(out, "1 artifact, 1 published branch") || strings.Contains(out, "not in it") {
			t.Error(out)
		}
		q := newPlace(t, "berlin")
		q.keeps()
		q.up()
		if out := q.do(0, "import", file); !strings.Contains(out, "INSPAN_WORKSPACE_MODE=follow restore them") {
			t.Error(out)
		}
		q.do(0, "import", file)
		q.goesOn("files")
	})
	p.down()
	p.wipe()
	t.Run("EVT-9 WS-15 a wiped station is refilled with the files, artifacts and branches of its runs, which go on with them", func(t *testing.T) {
		var list struct {
			Runs []struct {
				Beside struct {
					Files     int
					Artifacts []struct{}
					Left      []struct{}
				}
			}
		}
		out := inspan(t, 0, "restore", "--from", p.archive, "--station", "lab", "--list", "--json")
		if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Runs) != 1 || list.Runs[0].Beside.Files == 0 || len(list.Runs[0].Beside.Artifacts) != 1 || len(list.Runs[0].Beside.Left) != 0 {
			t.Errorf("%v %s", err, out)
		}
		inspan(t, 0, "restore", "--from", p.archive, "--station", "lab", "--store", filepath.Join(p.dir, "store"))
		p.up()
		if out := p.do(0, "restore", "--from", p.archive); !strings.Contains(out, "as they are") {
			t.Error(out)
		}
		p.goesOn("files")
	})
}

func TestFilesStay(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab")
	p.up()
	p.start(events.Task{ID: "stays", Agent: "careful", Task: "write", Autonomy: level(1)})
	p.await("stays", "waiting", waiting)
	t.Run("EVT-9 CLI-9 files that are on the machine of a toolrunner alone are named before and after", func(t *testing.T) {
		file := filepath.Join(p.dir, "stays.bundle")
		const says = "files of workspace run/stays: they are only on the machine of the toolrunner"
		if out := p.do(0, "export", "stays", "--bundle", file, "--fork"); !strings.Contains(out, says) {
			t.Error(out)
		}
		p.down()
		if out := inspan(t, 0, "restore", "--from", p.archive, "--station", "lab", "--list"); !strings.Contains(out, says) {
			t.Error(out)
		}
		p.wipe()
		if out := inspan(t, 0, "restore", "--from", p.archive, "--station", "lab", "--store", filepath.Join(p.dir, "store")); !strings.Contains(out, says) {
			t.Error(out)
		}
	})
}
