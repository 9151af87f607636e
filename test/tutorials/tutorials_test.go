package tutorials

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const pages = "../../docs/tutorials"

func TestTutorials(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal("the pages work in git repositories, and git is missing")
	}
	found, err := filepath.Glob(filepath.Join(pages, "*-*.md"))
	if err != nil || len(found) < 2 {
		t.Fatalf("%d pages, %v", len(found), err)
	}
	bin := programs(t)
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		p, err := parse(string(text))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if p.slow && !slow {
			t.Logf("%s: make tutorials carries it out", path)
			continue
		}
		t.Run("CLI-13 "+filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			p.follow(t, path, bin)
		})
	}
}

// follow does what a page says.
func (p page) follow(t *testing.T, path, bin string) {
	home := t.TempDir()
	dir := filepath.Join(home, "project")
	env := environment(t, home, bin)
	if p.answers != "" {
		env = append(env, "INSPAN_ANTHROPIC_BASE_URL="+model(t, filepath.Join("testdata", p.answers)))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if p.module {
		p.asModule(t, dir)
		env = append(env, "GOWORK="+filepath.Join(dir, "go.work"))
	}
	terminals := map[string]*terminal{}
	for i, s := range p.steps {
		if s.file != "" {
			write(t, filepath.Join(dir, s.file), s.content)
			continue
		}
		if terminals[s.terminal] == nil {
			terminals[s.terminal] = open(t, dir, env)
		}
		do := func() error { return terminals[s.terminal].run(t, s, stays(p.steps[i+1:], s.terminal)) }
		if s.command == interrupt {
			do = terminals[s.terminal].interrupt
		}
		if err := do(); err != nil {
			t.Fatalf("%s:%d: %s\n%v", path, s.line, s.command, err)
		}
	}
}

// interrupt is the command that is a key.
const interrupt = "^C"

// stays reports whether a command goes on running: it is in another terminal than the first, and no command follows there,
// or the key that ends it.
func stays(later []step, terminal string) bool {
	if terminal == "" {
		return false
	}
	for _, s := range later {
		if s.file == "" && s.terminal == terminal {
			return s.command == interrupt
		}
	}
	return true
}

// asModule lets a folder use the packages of this commit, as go get does with those of a release.
func (p page) asModule(t *testing.T, dir string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	version := strings.TrimPrefix(runtime.Version(), "go")
	write(t, filepath.Join(dir, "go.mod"), "module example.com/tutorial\n\ngo "+version+"\n")
	write(t, filepath.Join(dir, "go.work"), "go "+version+"\n\nuse (\n\t.\n\t"+root+"\n)\n")
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// programs builds what a reader has installed, and returns its folder.
func programs(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	args := []string{"build", "-ldflags=-s -w", "-o", bin + "/", "../../cmd/inspan", "../../cmd/inspan-within"}
	real, err := exec.LookPath("nats")
	if err != nil || !slow {
		args, real = append(args, "./nats"), "a double of it"
	}
	t.Logf("the nats command is %s", real)
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return bin
}

// environment is that of a person with an empty home and the programs of this commit.
func environment(t *testing.T, home, bin string) []string {
	t.Helper()
	env := []string{"HOME=" + home, "PATH=" + bin + ":" + os.Getenv("PATH"), "NO_COLOR=1", "TZ=UTC",
		"GIT_AUTHOR_NAME=Anna", "GIT_AUTHOR_EMAIL=anna@example.com", "GIT_COMMITTER_NAME=Anna", "GIT_COMMITTER_EMAIL=anna@example.com"}
	for _, name := range []string{"GOMODCACHE", "GOCACHE", "GOFLAGS", "GOTOOLCHAIN"} { // as they are without this home
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		env = append(env, name+"="+strings.TrimSpace(string(out)))
	}
	return env
}
