package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

var keepers = map[string]string{
	"agents/keeper.prompt": agent("keeper", "write, git_prepare, git_commit, git_publish"),
	"scripts/keeper.yaml": `turns:
  - when: {turn: 1}
    calls: [{name: git_prepare, input: {new_branch: agent/keeper/1}}]
  - when: {turn: 2}
    calls: [{name: write, input: {path: kept.md, content: "kept\n"}}]
  - when: {turn: 3}
    calls: [{name: git_commit, input: {message: keep it}}]
  - when: {turn: 4}
    calls: [{name: git_publish, input: {branch: agent/keeper/1}}]
  - when: {turn: 5}
    text: "done"
`,
}

func TestBranches(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for name, text := range keepers {
		if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d.up()
	d.want(0, words{"There are no branches."}, "branches", "list")
	d.want(0, nil, "run", "keeper", "keep it", "--id", "keeps", "--session", "s1")
	t.Run("GIT-10 GIT-7 list shows what runs left with the station, for people and for programs", func(t *testing.T) {
		d.want(0, words{"SCOPE", "session/s1", "agent/keeper/1", "whole"}, "branches", "list")
		all := decode[[]events.PublishedBranch](t, d.want(0, nil, "branches", "list", "session/s1", "--json").out)
		if len(all) != 1 || all[0].Branch != "agent/keeper/1" || len(all[0].Commit) != 40 || len(all[0].Parts) != 1 || all[0].Bytes == 0 || !strings.HasPrefix(all[0].By, "keeps/") {
			t.Errorf("%+v", all)
		}
		d.want(0, words{"There are no branches."}, "branches", "list", "session/s2")
		d.want(1, nil, "branches", "list", "session/*")
	})
	t.Run("GIT-10 get writes a file that git reads, and over nothing that is there", func(t *testing.T) {
		to := filepath.Join(d.dir, "work.bundle")
		d.want(0, words{"work.bundle", "git fetch"}, "branches", "get", "session/s1", "agent/keeper/1", "--to", to)
		cmd := exec.CommandContext(t.Context(), "git", "clone", "-q", "-b", "agent/keeper/1", to, filepath.Join(d.dir, "clone"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if b, err := os.ReadFile(filepath.Join(d.dir, "clone", "kept.md")); err != nil || string(b) != "kept\n" {
			t.Errorf("%q, %v", b, err)
		}
		if left, err := filepath.Glob(filepath.Join(d.dir, "clone", ".*")); err != nil || len(left) != 1 {
			t.Errorf("the harness's own files are in it: %v, %v", left, err)
		}
		d.want(1, words{"is there already", "--force"}, "branches", "get", "session/s1", "agent/keeper/1", "--to", to)
		d.want(0, nil, "branches", "get", "session/s1", "agent/keeper/1", "--to", to, "--force", "--json")
		d.want(5, nil, "branches", "get", "session/s1", "nothing", "--to", filepath.Join(d.dir, "none"))
		if _, err := os.Stat(filepath.Join(d.dir, "none.part")); err == nil {
			t.Error("half a file is left")
		}
	})
	t.Run("SESS-6 GIT-7 when their session is deleted they are kept apart for a time", func(t *testing.T) {
		d.want(0, nil, "session", "delete", "s1")
		for deadline := time.Now().Add(5 * time.Minute); ; <-time.After(20 * time.Millisecond) {
			all := decode[[]events.PublishedBranch](t, d.want(0, nil, "branches", "list", "--json").out)
			if len(all) == 1 && strings.HasPrefix(all[0].Scope, "deleted/s1/") && all[0].Until.After(time.Now().Add(24*time.Hour)) {
				to := filepath.Join(d.dir, "late.bundle")
				d.want(0, words{"late.bundle"}, "branches", "get", all[0].Scope, "agent/keeper/1", "--to", to)
				d.want(0, words{"There are no branches."}, "branches", "list", "session/s1")
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%+v", all)
			}
		}
	})
}
