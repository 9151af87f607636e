package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfigSet(t *testing.T) {
	read := func(t *testing.T, path string) string {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	// says runs a command that wants an exit code and words, and no secret.
	says := func(t *testing.T, code int, want []string, args ...string) said {
		t.Helper()
		s := inspan(t, append([]string{"config"}, args...)...)
		if s.code != code {
			t.Errorf("%v: exit %d, want %d\n%s%s", args, s.code, code, s.out, s.err)
		}
		for _, w := range want {
			if !strings.Contains(s.out+s.err, w) {
				t.Errorf("%v: %q is not said:\n%s%s", args, w, s.out, s.err)
			}
		}
		return s
	}
	t.Run("ID-2 a setting is written into the file of the user, and what is in force is told with its source", func(t *testing.T) {
		h, _ := home(t)
		path := filepath.Join(h, ".config", "inspan", "config.yaml")
		says(t, 0, words{"changed", "harness.max_steps is 40", "~/.config/inspan/config.yaml:2 (system)"}, "set", "harness.max_steps", "40")
		if got := read(t, path); got != "harness:\n  max_steps: 40\n" {
			t.Errorf("%q", got)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info.Mode(), err)
		}
		says(t, 0, words{"as it was", "harness.max_steps is 40"}, "set", "harness.max_steps", "40")
		says(t, 0, words{"station is lab"}, "set", "INSPAN_STATION", "lab", "--system")
		says(t, 0, words{"harness.max_steps is 50", "built-in"}, "unset", "harness.max_steps")
		if got := read(t, path); got != "station: lab\n" {
			t.Errorf("%q", got)
		}
		says(t, 0, words{"as it was"}, "unset", "harness.max_steps")
	})
	t.Run("ID-2 the project comes before the user, and a variable before both, which is told", func(t *testing.T) {
		_, project := home(t)
		says(t, 0, words{"station is own", "(project)"}, "set", "station", "own", "--project")
		says(t, 0, words{"station is own", "That comes before the file"}, "set", "station", "mine")
		t.Setenv("INSPAN_STATION", "of-env")
		s := says(t, 0, nil, "set", "station", "other", "--project", "--json")
		type setting struct{ Key, Value, Source string }
		got := decode[struct {
			Changed  bool
			File     string
			Layer    string
			Settings []setting
		}](t, s.out)
		if !got.Changed || got.Layer != "project" || got.File != filepath.Join(project, ".inspan", "config.yaml") || len(got.Settings) != 1 || got.Settings[0] != (setting{"station", "of-env", "environment"}) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("ID-2 what is wrong changes nothing, and is told with what to do", func(t *testing.T) {
		h, project := home(t)
		own := text(t, filepath.Join(h, ".config", "inspan", "config.yaml"), "# mine\nstation: lab # here\n")
		for _, tc := range []struct {
			want []string
			args []string
		}{
			{words{`did you mean "harness.max_steps"?`}, words{"set", "harness.max_stepz", "4"}},
			{words{"a part of the tree", "harness."}, words{"set", "harness", "4"}},
			{words{"nothing was changed", "max_steps", "1 to 10000"}, words{"set", "harness.max_steps", "0"}},
			{words{"nothing was changed", "wrong type"}, words{"set", "nats.replicas", "many"}},
			{words{"nothing was changed", "snapshot"}, words{"set", "snapshot_form", "clay"}},
			{words{"a project may not set this"}, words{"set", "nats.url", "nats://10.0.0.1:4222", "--project"}},
			{words{"the path leaves the project"}, words{"set", "agents", "../agents", "--project"}},
			{words{"there is no setting", "harness.max_steps"}, words{"unset", "harness.max_step"}},
			{words{"project", "system"}, words{"set", "station", "x", "--project", "--system"}},
			{words{"want 2"}, words{"set", "station"}},
		} {
			says(t, 2, tc.want, tc.args...)
		}
		if got := read(t, own); got != "# mine\nstation: lab # here\n" {
			t.Errorf("%q", got)
		}
		if _, err := os.Stat(filepath.Join(project, ".inspan", "config.yaml")); err == nil {
			t.Error("a file of the project was made")
		}
	})
	t.Run("SAFE-11 secrets are refused with what to do instead", func(t *testing.T) {
		h, _ := home(t)
		for _, tc := range [][]string{
			{"INSPAN_OPENAI_API_KEY_FILE", "chmod 600", "set", "models.openai.api_key", "canary"},
			{"INSPAN_NATS_PASSWORD", "kept and shown", "set", "nats.password", "canary"},
			{"INSPAN_NATS_PASSWORD", "kept and shown", "set", "nats.url", "nats://anna:canary@10.0.0.1:4222"},
		} {
			if s := says(t, 2, tc[:2], tc[2:]...); strings.Contains(s.out+s.err, "canary") {
				t.Errorf("it was shown: %s%s", s.out, s.err)
			}
		}
		if _, err := os.Stat(filepath.Join(h, ".config", "inspan", "config.yaml")); err == nil {
			t.Error("a file was made")
		}
	})
	t.Run("ID-2 a broken file can be fixed", func(t *testing.T) {
		h, _ := home(t)
		own := text(t, filepath.Join(h, ".config", "inspan", "config.yaml"), "# steps\nharness:\n  max_stepz: 4\n  timeout: 5m\n")
		says(t, 2, words{"nothing was changed", "max_stepz"}, "set", "station", "lab")
		says(t, 0, words{"changed"}, "unset", "harness.max_stepz")
		if got := read(t, own); got != "# steps\nharness:\n  timeout: 5m\n" {
			t.Errorf("%q", got)
		}
	})
	t.Run("ID-2 INSPAN_CONFIG names the file, a link stays a link, and its mode stays", func(t *testing.T) {
		h, _ := home(t)
		real := text(t, filepath.Join(h, "dotfiles", "c.yaml"), "station: a\n")
		if err := os.Chmod(real, 0o644); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(h, "link.yaml")
		if err := os.Symlink(real, link); err != nil {
			t.Fatal(err)
		}
		t.Setenv("INSPAN_CONFIG", link)
		says(t, 0, words{"station is b"}, "set", "station", "b")
		if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 || read(t, real) != "station: b\n" {
			t.Errorf("%v %v %q", info.Mode(), err, read(t, real))
		}
		if info, err := os.Stat(real); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%v %v", info.Mode(), err)
		}
		says(t, 2, words{"in place of the project's"}, "set", "station", "c", "--project")
		t.Setenv("INSPAN_CONFIG", "none")
		says(t, 2, words{"reads none"}, "set", "station", "c")
	})
}
