package service

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/secret"
)

// place is a person's machine: a home and a project, and nothing in the environment.
type place struct{ home, project string }

func newPlace(t *testing.T) place {
	t.Helper()
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "INSPAN_") || name == "MODEL" || name == "XDG_CONFIG_HOME" {
			t.Setenv(name, "")
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, s := range Table() {
		for _, name := range []string{s.Variable, s.Standard, s.Standard + "_FILE"} {
			if name != "" && name != "_FILE" {
				t.Setenv(name, "")
				if err := os.Unsetenv(name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := place{filepath.Join(dir, "home"), filepath.Join(dir, "project")}
	for _, d := range []string{filepath.Join(p.home, ".config", "inspan"), filepath.Join(p.project, ".inspan"), filepath.Join(p.project, "deep", "er")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", p.home)
	t.Chdir(filepath.Join(p.project, "deep", "er"))
	return p
}

func (p place) system() string { return filepath.Join(p.home, ".config", "inspan", "config.yaml") }
func (p place) own() string    { return filepath.Join(p.project, ".inspan", "config.yaml") }

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func config(t *testing.T) (Layers, Config) {
	t.Helper()
	l, err := Discover()
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Config()
	if err != nil {
		t.Fatal(err)
	}
	return l, c
}

func from(l Layers, key string) Origin {
	for _, e := range l.Explain() {
		if e.Key == key {
			return e.Origins[0]
		}
	}
	return Origin{}
}

func TestCascade(t *testing.T) {
	t.Run("ID-2 environment, project, system and built-in, in this order, each with its source", func(t *testing.T) {
		p := newPlace(t)
		steps := []struct {
			do           func()
			value, layer string
			where        string
		}{
			{func() {}, "default", FromDefault, ""},
			{func() { put(t, p.system(), "# mine\nstation: of-system\n") }, "of-system", FromSystem, p.system() + ":2"},
			{func() { put(t, p.own(), "station: of-project\n") }, "of-project", FromProject, p.own() + ":1"},
			{func() { t.Setenv("INSPAN_STATION", "of-env") }, "of-env", FromEnvironment, "INSPAN_STATION"},
		}
		for i, s := range steps {
			s.do()
			l, c := config(t)
			if want := (Origin{s.layer, s.where, s.value}); c.Station != s.value || from(l, "station") != want || i > 0 && l.Lookup("INSPAN_STATION", "x") != s.value {
				t.Errorf("station %q from %+v, want %+v", c.Station, from(l, "station"), want)
			}
		}
		l, _ := config(t)
		for _, e := range l.Explain() {
			if e.Key == "station" && len(e.Origins) != 4 {
				t.Errorf("origins %+v", e.Origins)
			}
		}
	})
	t.Run("ID-2 every kind of value reaches its field", func(t *testing.T) {
		p := newPlace(t)
		put(t, p.system(), "nats: {replicas: 3, log_max_bytes: 5000, accept_lazy_fsync: true}\nservice: {drain: 7s}\ncommands: {env: [A=1, B=2]}\nmodels: {openai: {api_key: sk-canary}}\nharness: {sandbox: {mode: bwrap}, workspace: {path: work}, timeout: 3m}\n")
		_, c := config(t)
		if c.Replicas != 3 || c.LogMaxBytes != 5000 || !c.AcceptLazy || c.Drain.String() != "7s" || strings.Join(c.SandboxEnv, "|") != "A=1|B=2" || c.OpenAIKey.Reveal() != "sk-canary" || c.Sandbox != "bwrap" {
			t.Errorf("%+v", c)
		}
		if want := filepath.Join(filepath.Dir(p.system()), "work"); c.Workspace != want {
			t.Errorf("workspace %s, want %s: relative to the file", c.Workspace, want)
		}
		a, _, err := c.AgentDefaults.Parse("a", []byte("---\nmodel: scripted/x\n---\nhi\n"))
		if err != nil || a.TimeoutMS != 180000 {
			t.Errorf("ID-12 the default of agents: %d, %v", a.TimeoutMS, err)
		}
	})
	t.Run("ID-2 a wrong value of a file is named with the file and the line", func(t *testing.T) {
		p := newPlace(t)
		put(t, p.system(), "\nnats: {replicas: 2}\n")
		l, err := Discover()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Config(); err == nil || !strings.Contains(err.Error(), p.system()+":2") {
			t.Errorf("%v", err)
		}
	})
	t.Run("ID-2 INSPAN_CONFIG names the only file, or none", func(t *testing.T) {
		p := newPlace(t)
		put(t, p.system(), "station: of-system\n")
		t.Setenv(ConfigVariable, "none")
		if _, c := config(t); c.Station != "default" {
			t.Error(c.Station)
		}
		one := filepath.Join(p.project, "one.yaml")
		put(t, one, "station: one\nagents: those\n")
		t.Setenv(ConfigVariable, one)
		if _, c := config(t); c.Station != "one" || c.Agents != filepath.Join(p.project, "those") {
			t.Error(c.Station, c.Agents)
		}
		t.Setenv(ConfigVariable, one+".gone")
		if _, err := Discover(); err == nil {
			t.Error("a named file that is not there was passed over")
		}
	})
}

func TestProjectIsAStranger(t *testing.T) {
	for _, text := range []string{"models: {anthropic: {base_url: 'http://evil'}}", "models: {openai: {api_key: x}}", "nats: {url: 'nats://evil'}", "policy: p.yaml", "hooks_dir: h",
		"commands: {env: [A=1]}", "harness: {sandbox: {mode: host}}", "harness: {autonomy: 5}", "harness: {sandbox: {network: {enabled: true}}}", "harness: {workspace: {mode: host}}",
		"approvals: {only_signed: false}", "service: {http: '0.0.0.0:80'}", "limits: {runs: 0}"} {
		t.Run("SAFE-8 the file of a project may not say "+text, func(t *testing.T) {
			p := newPlace(t)
			put(t, p.own(), text+"\n")
			if _, err := Discover(); err == nil || !strings.Contains(err.Error(), "a project may not set this") || !strings.Contains(err.Error(), p.own()+":1") {
				t.Errorf("%v", err)
			}
		})
	}
	for _, text := range []string{"agents: ../elsewhere", "harness: {workspace: {path: /}}", "store: ~/x"} {
		t.Run("SAFE-8 paths of a project stay in it: "+text, func(t *testing.T) {
			p := newPlace(t)
			put(t, p.own(), text+"\n")
			if _, err := Discover(); err == nil || !strings.Contains(err.Error(), "leaves the project") {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestSecrets(t *testing.T) {
	t.Run("ECO-10 SAFE-11 a secret is read from the file that NAME_FILE names, wins over config.yaml and is never shown", func(t *testing.T) {
		p := newPlace(t)
		put(t, p.system(), "models: {gemini: {api_key: canary-of-yaml}}\nstation_key: canary-station\n")
		file := filepath.Join(p.home, "key")
		put(t, file, "canary-of-file\n")
		t.Setenv("GEMINI_API_KEY_FILE", file)
		l, c := config(t)
		if c.GeminiKey.Reveal() != "canary-of-file" || c.StationKey.Reveal() != "canary-station" {
			t.Error("not the right keys")
		}
		if printed := fmt.Sprintf("%+v %#v %+v", l.Explain(), c, l.Warnings); strings.Contains(printed, "canary") {
			t.Errorf("a secret was printed: %s", printed)
		}
		if o := from(l, "models.gemini.api_key"); o.Layer != FromEnvironment || o.Where != "GEMINI_API_KEY_FILE" || o.Value != "***" {
			t.Errorf("%+v", o)
		}
		if len(l.Warnings) != 0 {
			t.Errorf("warned of a file that only its owner reads: %v", l.Warnings)
		}
	})
	t.Run("ECO-10 a file with a secret that others can read is warned of", func(t *testing.T) {
		p := newPlace(t)
		put(t, p.system(), "nats: {password: canary-pw}\n")
		if err := os.Chmod(p.system(), 0o644); err != nil {
			t.Fatal(err)
		}
		l, _ := config(t)
		if len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0].String(), "chmod 600") || strings.Contains(l.Warnings[0].String(), "canary") {
			t.Errorf("%v", l.Warnings)
		}
	})
	t.Run("ECO-10 a file of a secret that is not there is an error with the variable", func(t *testing.T) {
		newPlace(t)
		t.Setenv("OPENAI_API_KEY_FILE", "/none/such")
		if _, err := FromEnv(); err == nil || !strings.Contains(err.Error(), "OPENAI_API_KEY_FILE") {
			t.Errorf("%v", err)
		}
	})
	t.Run("SAFE-11 every secret of the configuration is masked in what tools answer", func(t *testing.T) {
		newPlace(t)
		t.Setenv("GEMINI_API_KEY", "canary-gemini")
		c, err := FromEnv()
		if err != nil {
			t.Fatal(err)
		}
		masked, err := Secrets(&c)
		if err != nil {
			t.Fatal(err)
		}
		if out := secret.Mask(masked...)("it is canary-gemini"); strings.Contains(out, "canary") {
			t.Errorf("%s", out)
		}
	})
}

func TestTable(t *testing.T) {
	t.Parallel()
	t.Run("ID-2 ID-12 each setting has one key, no key is above another, and traits are of real variables", func(t *testing.T) {
		t.Parallel()
		seen, variables := map[string]bool{}, map[string]bool{}
		for _, s := range Table() {
			if s.Key == "" || seen[s.Key] || s.Doc == "" {
				t.Errorf("setting %+v", s)
			}
			seen[s.Key], variables[s.Variable] = true, true
		}
		for a := range seen {
			for b := range seen {
				if strings.HasPrefix(b, a+".") {
					t.Errorf("%s stands above %s", a, b)
				}
			}
		}
		for name := range traits() {
			if !variables[name] {
				t.Errorf("there is no variable %s", name)
			}
		}
		for _, s := range Table() {
			if s.Secret && s.Project {
				t.Errorf("a project may set the secret %s", s.Key)
			}
		}
	})
}
