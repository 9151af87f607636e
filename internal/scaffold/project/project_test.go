package project_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/inspan/inspan/internal/scaffold/project"
)

// layouts are files with their text, and what they are: "Language: test | build" for each part.
var layouts = []struct {
	name  string
	files map[string]string
	want  string
}{
	{"nothing", nil, ""},
	{"text only", map[string]string{"README.md": "go.mod package.json"}, ""},
	{"go", map[string]string{"go.mod": "module x"}, "Go: go test ./... | go build ./..."},
	{"go workspace", map[string]string{"go.work": ""}, "Go: go test ./... | go build ./..."},
	{"go with a makefile", map[string]string{"go.mod": "", "Makefile": "test:\n\tgo test\n"}, "Go: go test ./... | go build ./..."},
	{"rust", map[string]string{"Cargo.toml": ""}, "Rust: cargo test | cargo build"},
	{"npm", map[string]string{"package.json": `{"scripts":{"test":"vitest","build":"tsc"}}`, "package-lock.json": ""}, "JavaScript: npm run test | npm run build"},
	{"pnpm", map[string]string{"package.json": `{"scripts":{"test":"x"}}`, "pnpm-lock.yaml": "", "tsconfig.json": ""}, "TypeScript: pnpm run test | "},
	{"yarn", map[string]string{"package.json": `{"scripts":{"test":"x"}}`, "yarn.lock": ""}, "JavaScript: yarn run test | "},
	{"bun", map[string]string{"package.json": `{"scripts":{"test":"x"}}`, "bun.lock": ""}, "JavaScript: bun run test | "},
	{"the manager that package.json names", map[string]string{"package.json": `{"packageManager":"pnpm@9.1.0","scripts":{"test":"x"}}`}, "JavaScript: pnpm run test | "},
	{"a lock file goes before it", map[string]string{"package.json": `{"packageManager":"pnpm@9","scripts":{"test":"x"}}`, "yarn.lock": ""}, "JavaScript: yarn run test | "},
	{"npm's own placeholder is no test", map[string]string{"package.json": `{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}`}, "JavaScript:  | "},
	{"pytest in pyproject", map[string]string{"pyproject.toml": "[tool.pytest.ini_options]\n"}, "Python: python3 -m pytest | "},
	{"uv", map[string]string{"pyproject.toml": "pytest", "uv.lock": ""}, "Python: uv run pytest | "},
	{"poetry", map[string]string{"pyproject.toml": "pytest", "poetry.lock": ""}, "Python: poetry run pytest | "},
	{"unittest", map[string]string{"setup.py": "", "tests/": ""}, "Python: python3 -m unittest | "},
	{"uv without pytest", map[string]string{"pyproject.toml": "[tool.uv]", "tests/": ""}, "Python: uv run python -m unittest | "},
	{"python without tests", map[string]string{"requirements.txt": "flask"}, "Python:  | "},
	{"maven", map[string]string{"pom.xml": ""}, "Java: mvn test | mvn package -DskipTests"},
	{"maven with its wrapper", map[string]string{"pom.xml": "", "mvnw": ""}, "Java: ./mvnw test | ./mvnw package -DskipTests"},
	{"gradle", map[string]string{"build.gradle.kts": "", "gradlew": ""}, "Java: ./gradlew test | ./gradlew assemble"},
	{"make", map[string]string{"Makefile": "all: x\ntest: all\n\ttrue\n"}, "a Makefile: make test | "},
	{"make check", map[string]string{"makefile": "check :\n\ttrue\n"}, "a Makefile: make check | "},
	{"make without a test", map[string]string{"Makefile": "test := 1\ntester:\n\tfalse\n"}, ""},
	{"node without a test and make with one", map[string]string{"package.json": `{}`, "Makefile": "test:\n"}, "JavaScript:  | ; a Makefile: make test | "},
	{"two", map[string]string{"go.mod": "", "package.json": `{"scripts":{"test":"x"}}`}, "Go: go test ./... | go build ./...; JavaScript: npm run test | "},

	{"not JSON", map[string]string{"package.json": `{"scripts":`}, "JavaScript:  | "},
	{"JSON of another shape", map[string]string{"package.json": `{"scripts":["test"],"packageManager":7}`}, "JavaScript:  | "},
	{"scripts that are no text", map[string]string{"package.json": `{"scripts":{"test":{"a":1},"build":null}}`}, "JavaScript:  | "},
	{"a manager that is a command", map[string]string{"package.json": `{"packageManager":"sh -c evil@1","scripts":{"test":"rm -rf /"}}`}, "JavaScript: npm run test | "},
	{"nested deeply", map[string]string{"package.json": strings.Repeat("[", 100_000)}, "JavaScript:  | "},
	{"binary", map[string]string{"Makefile": "\x00\xff\xfetest\x00:", "pyproject.toml": "\xff"}, "Python:  | "},
}

func text(p project.Project) string {
	var parts []string
	for _, part := range p.Parts {
		parts = append(parts, part.Language+": "+part.Test+" | "+part.Build)
	}
	return strings.Join(parts, "; ")
}

func TestDetect(t *testing.T) {
	t.Parallel()
	for _, l := range layouts {
		t.Run("CLI-2 "+l.name, func(t *testing.T) {
			t.Parallel()
			files := map[string][]byte{}
			for name, text := range l.files {
				files[name] = []byte(text)
			}
			if got := text(project.Detect(files)); got != l.want {
				t.Errorf("got %q, want %q", got, l.want)
			}
			dir := t.TempDir()
			for name, text := range l.files {
				path := filepath.Join(dir, name)
				var err error
				if strings.HasSuffix(name, "/") {
					err = os.Mkdir(path, 0o755)
				} else {
					err = os.WriteFile(path, []byte(text), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			seen, err := project.Look(dir)
			if err != nil {
				t.Fatal(err)
			}
			if got := text(project.Detect(seen)); got != l.want {
				t.Errorf("from a directory: got %q, want %q", got, l.want)
			}
		})
	}
}

func TestLook(t *testing.T) {
	t.Parallel()
	t.Run("CLI-2 a file above the limit is seen and not read, one at the limit is read", func(t *testing.T) {
		t.Parallel()
		const begin = `{"scripts":{"test":"x"},"pad":"`
		for size, want := range map[int]string{project.MaxText: "JavaScript: npm run test | ", project.MaxText + 1: "JavaScript:  | ", 50 << 20: "JavaScript:  | "} {
			dir := t.TempDir()
			data := append(append([]byte(begin), bytes.Repeat([]byte("a"), size-len(begin)-2)...), `"}`...)
			if err := os.WriteFile(filepath.Join(dir, "package.json"), data, 0o600); err != nil {
				t.Fatal(err)
			}
			files, err := project.Look(dir)
			if err != nil {
				t.Fatal(err)
			}
			if got := text(project.Detect(files)); got != want {
				t.Errorf("%d bytes: got %q, want %q", size, got, want)
			}
		}
	})
	t.Run("CLI-2 no link is followed, and a pipe is not waited for", func(t *testing.T) {
		t.Parallel()
		dir, away := t.TempDir(), t.TempDir()
		if err := os.WriteFile(filepath.Join(away, "package.json"), []byte(`{"scripts":{"test":"x"}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"package.json", "go.mod", "Makefile"} {
			if err := os.Symlink(filepath.Join(away, "package.json"), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(os.Symlink(away, filepath.Join(dir, "tests")), syscall.Mkfifo(filepath.Join(dir, "pyproject.toml"), 0o600)); err != nil {
			t.Fatal(err)
		}
		files, err := project.Look(dir)
		if err != nil || len(files) != 0 {
			t.Errorf("%v %v", files, err)
		}
	})
	t.Run("CLI-2 a directory that is not there is an error", func(t *testing.T) {
		t.Parallel()
		if _, err := project.Look(filepath.Join(t.TempDir(), "none")); err == nil {
			t.Error("no error")
		}
	})
}
