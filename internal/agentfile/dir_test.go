package agentfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
)

func write(t *testing.T, dir, name, data string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

const sound = "---\nmodel: a/b\nharness: agentic\n---\n"

func TestLoadDir(t *testing.T) {
	t.Parallel()
	t.Run("ID-10 ID-11 agents by name, other files are left alone", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		write(t, dir, "one.prompt", sound)
		write(t, dir, "two.prompt", strings.Replace(sound, "agentic", "{streaming: {enabled: true}}", 1))
		write(t, dir, "README.md", "no agent")
		if err := os.Mkdir(filepath.Join(dir, "sub.prompt"), 0o700); err != nil {
			t.Fatal(err)
		}
		agents, warnings, err := agentfile.LoadDir(dir)
		if err != nil || len(agents) != 2 || agents["one"].Name != "one" || agents["two"].Name != "two" {
			t.Fatalf("%v %v", agents, err)
		}
		if len(warnings) != 1 || warnings[0].File != "two.prompt" {
			t.Errorf("%v", warnings)
		}
	})
	t.Run("ID-10 all errors are told, each with its file", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		write(t, dir, "good.prompt", sound)
		write(t, dir, "bad.prompt", "---\ntoolz: [read]\n---\n")
		write(t, dir, "worse.prompt", "nothing")
		write(t, dir, "no agent.prompt", sound)
		agents, _, err := agentfile.LoadDir(dir)
		files := map[string]int{}
		for _, e := range all(err) {
			files[e.File]++
		}
		if files["bad.prompt"] != 2 || files["worse.prompt"] != 1 || files[`"no agent"`] != 1 || len(files) != 3 {
			t.Errorf("%v: %v", files, err)
		}
		if len(agents) != 1 {
			t.Errorf("the sound agent is not there: %v", agents)
		}
	})
	t.Run("a link that leaves the directory is refused, one that stays is followed", func(t *testing.T) {
		t.Parallel()
		dir, outside := t.TempDir(), t.TempDir()
		write(t, outside, "secret.prompt", sound)
		write(t, dir, "real", sound)
		for to, name := range map[string]string{filepath.Join(outside, "secret.prompt"): "absolute.prompt", "../" + filepath.Base(outside) + "/secret.prompt": "up.prompt",
			"real": "inside.prompt", "nowhere": "broken.prompt", "loop.prompt": "loop.prompt"} {
			if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		agents, _, err := agentfile.LoadDir(dir)
		if len(agents) != 1 || agents["inside"].Model != "a/b" {
			t.Errorf("%v", agents)
		}
		if errs := all(err); len(errs) != 4 {
			t.Errorf("%d errors, want 4: %v", len(errs), err)
		}
	})
	t.Run("a pipe is never waited for", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if err := syscall.Mkfifo(filepath.Join(dir, "pipe.prompt"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := agentfile.LoadDir(dir)
		if errs := all(err); len(errs) != 1 || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%v", err)
		}
	})
	t.Run("a file above the limit is not read whole", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		write(t, dir, "big.prompt", sound)
		if err := os.Truncate(filepath.Join(dir, "big.prompt"), 1<<40); err != nil {
			t.Fatal(err)
		}
		_, _, err := agentfile.LoadDir(dir)
		if errs := all(err); len(errs) != 1 || errs[0].Code != agentfile.CodeLimit {
			t.Errorf("%v", err)
		}
	})
	t.Run("no directory, an empty one", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if _, _, err := agentfile.LoadDir(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v", err)
		}
		if agents, _, err := agentfile.LoadDir(dir); err != nil || len(agents) != 0 {
			t.Errorf("%v %v", agents, err)
		}
	})
}
