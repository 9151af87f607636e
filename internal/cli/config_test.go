package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// home gives a person a home and a project of their own, and goes into the project.
func home(t *testing.T) (home, project string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home, project = filepath.Join(dir, "home"), filepath.Join(dir, "project")
	for _, d := range []string{filepath.Join(home, ".config", "inspan"), filepath.Join(project, ".inspan")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("INSPAN_CONFIG", "")
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("HOME", home)
	t.Chdir(project)
	return home, project
}

func text(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfigExplain(t *testing.T) {
	type explained struct{ Key, Variable, Value, Source, Where string }
	one := func(t *testing.T, args ...string) explained {
		t.Helper()
		s := inspan(t, append([]string{"config", "explain", "--json"}, args...)...)
		if s.code != 0 {
			t.Fatalf("exit %d %s", s.code, s.err)
		}
		return decode[[]explained](t, s.out)[0]
	}
	t.Run("ID-2 each effective value is shown with its source", func(t *testing.T) {
		h, project := home(t)
		system := text(t, filepath.Join(h, ".config", "inspan", "config.yaml"), "nats:\n  url: nats://anna:canary@10.0.0.1:4222\nstation: of-system\nmodels: {openai: {api_key: canary}}\n")
		own := text(t, filepath.Join(project, ".inspan", "config.yaml"), "harness:\n  max_steps: 7\n")
		t.Setenv("INSPAN_STATION", "of-env")
		for _, tc := range []struct {
			args []string
			want explained
		}{
			{words{"harness.max_steps"}, explained{"harness.max_steps", "", "7", "project", own + ":2"}},
			{words{"nats.url"}, explained{"nats.url", "INSPAN_NATS_URL", "nats://***@10.0.0.1:4222", "system", system + ":2"}},
			{words{"INSPAN_STATION"}, explained{"station", "INSPAN_STATION", "of-env", "environment", "INSPAN_STATION"}},
			{words{"station", "--station", "of-flag"}, explained{"station", "INSPAN_STATION", "of-flag", "flag", "--station"}},
			{words{"harness.nats.enabled", "--local"}, explained{"harness.nats.enabled", "INSPAN_NATS_ENABLED", "false", "flag", "--local"}},
			{words{"harness.timeout"}, explained{"harness.timeout", "", "30m0s", "built-in", ""}},
			{words{"models.openai.api_key"}, explained{"models.openai.api_key", "INSPAN_OPENAI_API_KEY", "***", "system", system + ":4"}},
		} {
			if got := one(t, tc.args...); got != tc.want {
				t.Errorf("%v: got %+v, want %+v", tc.args, got, tc.want)
			}
		}
		s := inspan(t, "config", "explain")
		for _, word := range []string{"~/.config/inspan/config.yaml:2 (system)", own + ":2 (project)", "built-in", "***"} {
			if !strings.Contains(s.out, word) {
				t.Errorf("%q is not shown:\n%s", word, s.out)
			}
		}
		if strings.Contains(s.out+s.err, "canary") {
			t.Error("SAFE-11 a secret was shown")
		}
		if s := inspan(t, "config", "explain", "station"); !strings.Contains(s.out, "of-env") || !strings.Contains(s.out, "of-system") || !strings.Contains(s.out, "default") {
			t.Errorf("the layers below are not shown:\n%s", s.out)
		}
		if s := inspan(t, "config", "explain", "--changed"); strings.Contains(s.out, "built-in") || !strings.Contains(s.out, "harness.max_steps") {
			t.Errorf("%s", s.out)
		}
		if s := inspan(t, "config", "path"); !strings.Contains(s.out, system) || !strings.Contains(s.out, own) {
			t.Errorf("%s", s.out)
		}
	})
	t.Run("ID-2 a broken file stops every command that needs it, with the line and the nearest key", func(t *testing.T) {
		_, project := home(t)
		text(t, filepath.Join(project, ".inspan", "config.yaml"), "harness:\n  max_stepz: 7\n")
		for _, args := range [][]string{{"runs"}, {"run", "a", "b"}, {"config", "explain"}} {
			if s := inspan(t, args...); s.code != 2 || !strings.Contains(s.err, "config.yaml:2: harness.max_stepz") || !strings.Contains(s.err, "did you mean max_steps?") {
				t.Errorf("%v: exit %d %s", args, s.code, s.err)
			}
		}
		if s := inspan(t, "version"); s.code != 0 {
			t.Errorf("version: %s", s.err)
		}
	})
	t.Run("ID-2 a setting that is not known is named", func(t *testing.T) {
		if s := inspan(t, "config", "explain", "harness.max_step"); s.code != 2 || !strings.Contains(s.err, "harness.max_steps") {
			t.Errorf("exit %d %s", s.code, s.err)
		}
	})
	t.Run("ID-12 ID-2 a station registers agents with the defaults of the configuration, and the command line overrides them", func(t *testing.T) {
		d := newDesk(t)
		h, _ := home(t)
		text(t, filepath.Join(h, ".config", "inspan", "config.yaml"), "harness:\n  max_steps: 13\n  timeout: 7m\n  autonomy: 2\n")
		s := inspan(t, "run", "reader", "read", "--ephemeral", "--json", "--agents", filepath.Join(d.dir, "agents"), "--scripts", filepath.Join(d.dir, "scripts"), "--autonomy", "5", "--accept-lazy-fsync")
		if s.code != 0 {
			t.Fatalf("exit %d %s %s", s.code, s.out, s.err)
		}
		type created struct {
			Data struct {
				Options struct {
					MaxSteps  int   `json:"max_steps"`
					TimeoutMS int64 `json:"timeout_ms"`
					Autonomy  int
				}
			}
		}
		first, _, _ := strings.Cut(s.out, "\n")
		if o := decode[created](t, first).Data.Options; o.MaxSteps != 13 || o.TimeoutMS != 120000 || o.Autonomy != 5 {
			t.Errorf("options %+v: want 13 steps of the file, 2m of the agent, autonomy 5 of the flag", o)
		}
	})
}
