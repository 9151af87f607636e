// Package project finds out what a directory is: its languages, and the commands that test and build it.
//
// Promises: Detect is a function of the files that it is given and nothing else. The commands are of this package; no
// text of a file becomes part of one, because a directory may be somebody else's. Look follows no link, reads a few
// files of known names up to a limit, and takes what it cannot read as absent.
package project

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/pattern"
)

// Part is one build system of a directory.
type Part struct {
	// Language such as "Go", and Sign, the file that says so.
	Language string `json:"language"`
	Sign     string `json:"sign"`
	// Test and Build are command lines, empty where there is none.
	Test  string `json:"test,omitempty"`
	Build string `json:"build,omitempty"`
	// Needs are the programs that both start.
	Needs []string `json:"needs,omitempty"`
}

// Project is what a directory is; the zero value is nothing known.
type Project struct {
	Parts []Part `json:"parts"`
}

// Commands are the command lines of all parts, those that test first, each once.
func (p Project) Commands() (all []string) {
	for _, of := range []func(Part) string{func(p Part) string { return p.Test }, func(p Part) string { return p.Build }} {
		for _, part := range p.Parts {
			if c := of(part); c != "" && !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
	}
	return all
}

// Lines say what was found, a line for each part.
func (p Project) Lines() (lines []string) {
	for _, part := range p.Parts {
		line := fmt.Sprintf("%s (%s)", part.Language, part.Sign)
		if part.Test != "" {
			line += ", tested with " + part.Test
		} else {
			line += ", no command that tests it was found"
		}
		lines = append(lines, line)
	}
	return lines
}

// Limits of Look.
const (
	// MaxText is the most that is read of a file, in bytes; a larger one counts as present and unread.
	MaxText = 1 << 20
	// maxNames bounds the names of a directory that are looked at.
	maxNames = 10_000
)

// read are the files whose text matters.
var read = []string{"package.json", "Makefile", "makefile", "GNUmakefile", "pyproject.toml", "requirements.txt",
	"setup.cfg"}

// Look lists the plain files of a directory, with the text of those that matter; a folder is listed with / behind its
// name.
func Look(dir string) (map[string][]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("look at the directory: %w", err)
	}
	defer func() { _ = root.Close() }() // nothing was written
	folder, err := root.Open(".")
	if err != nil {
		return nil, fmt.Errorf("look at the directory: %w", err)
	}
	defer func() { _ = folder.Close() }() // as above
	entries, err := folder.ReadDir(maxNames)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("look at the directory: %w", err)
	}
	files := map[string][]byte{}
	for _, e := range entries {
		switch {
		case e.IsDir():
			files[e.Name()+"/"] = nil
		case e.Type().IsRegular():
			files[e.Name()] = nil
			if slices.Contains(read, e.Name()) {
				files[e.Name()] = text(root, e.Name())
			}
		}
	}
	return files, nil
}

// text of a plain file that is not too large, else nothing.
func text(root *os.Root, name string) []byte {
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() || info.Size() > MaxText {
		return nil
	}
	f, err := root.Open(name)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // nothing was written
	b, err := io.ReadAll(io.LimitReader(f, MaxText+1))
	if err != nil || len(b) > MaxText {
		return nil
	}
	return b
}

// Detect says what a directory is by its files, as Look gives them.
func Detect(files map[string][]byte) Project {
	var p Project
	for _, one := range []func(map[string][]byte) (Part, bool){golang, rust, python, node, maven, gradle} {
		if part, ok := one(files); ok {
			p.Parts = append(p.Parts, part)
		}
	}
	if part, ok := makefile(files); ok && !slices.ContainsFunc(p.Parts, func(p Part) bool { return p.Test != "" }) {
		p.Parts = append(p.Parts, part)
	}
	return p
}

func has(files map[string][]byte, names ...string) (string, bool) {
	for _, n := range names {
		if _, ok := files[n]; ok {
			return n, true
		}
	}
	return "", false
}

func golang(files map[string][]byte) (Part, bool) {
	sign, ok := has(files, "go.mod", "go.work")
	return Part{Language: "Go", Sign: sign, Test: "go test ./...", Build: "go build ./...", Needs: []string{"go"}}, ok
}

func rust(files map[string][]byte) (Part, bool) {
	sign, ok := has(files, "Cargo.toml")
	return Part{Language: "Rust", Sign: sign, Test: "cargo test", Build: "cargo build", Needs: []string{"cargo"}}, ok
}

func python(files map[string][]byte) (Part, bool) {
	sign, ok := has(files, "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "pytest.ini", "tox.ini")
	p := Part{Language: "Python", Sign: sign, Needs: []string{"python3"}}
	said := string(files["pyproject.toml"]) + string(files["requirements.txt"]) + string(files["setup.cfg"])
	_, pytest := has(files, "pytest.ini", "conftest.py")
	pytest = pytest || strings.Contains(said, "pytest")
	_, tests := has(files, "tests/", "test/")
	runner := "python3 -m "
	if _, uv := has(files, "uv.lock"); uv || strings.Contains(said, "[tool.uv") {
		runner, p.Needs = "uv run ", []string{"uv"}
	} else if _, poetry := has(files, "poetry.lock"); poetry {
		runner, p.Needs = "poetry run ", []string{"poetry"}
	}
	switch {
	case pytest:
		p.Test = runner + "pytest"
	case tests && runner == "python3 -m ":
		p.Test = "python3 -m unittest"
	case tests:
		p.Test = runner + "python -m unittest"
	}
	return p, ok
}

// managers of JavaScript packages by their lock files.
var managers = [][2]string{{"pnpm-lock.yaml", "pnpm"}, {"yarn.lock", "yarn"}, {"bun.lock", "bun"},
	{"bun.lockb", "bun"}, {"package-lock.json", "npm"},
	{"npm-shrinkwrap.json", "npm"}}

// noTest is what npm init writes in the place of a test.
const noTest = "no test specified"

func node(files map[string][]byte) (Part, bool) {
	sign, ok := has(files, "package.json")
	p := Part{Language: "JavaScript", Sign: sign}
	if _, typed := has(files, "tsconfig.json"); typed {
		p.Language = "TypeScript"
	}
	var about struct {
		Manager any            `json:"packageManager"`
		Scripts map[string]any `json:"scripts"`
	}
	if err := json.Unmarshal(files[sign], &about); err != nil {
		return p, ok // what it says is not known; that it is there says enough
	}
	manager := "npm"
	if said, _ := about.Manager.(string); said != "" {
		if name, _, _ := strings.Cut(said, "@"); slices.Contains([]string{"pnpm", "yarn", "bun"}, name) {
			manager = name
		}
	}
	for _, m := range managers {
		if _, locked := has(files, m[0]); locked {
			manager = m[1]
			break
		}
	}
	p.Needs = []string{manager}
	script := func(name string) bool {
		line, _ := about.Scripts[name].(string)
		return strings.TrimSpace(line) != "" && !strings.Contains(line, noTest)
	}
	if script("test") {
		p.Test = manager + " run test"
	}
	if script("build") {
		p.Build = manager + " run build"
	}
	return p, ok
}

func maven(files map[string][]byte) (Part, bool) {
	sign, ok := has(files, "pom.xml")
	return java(files, sign, "mvnw", "mvn", "test", "package -DskipTests"), ok
}

func gradle(files map[string][]byte) (Part, bool) {
	sign, ok := has(files, "build.gradle", "build.gradle.kts")
	return java(files, sign, "gradlew", "gradle", "test", "assemble"), ok
}

func java(files map[string][]byte, sign, wrapper, program, test, build string) Part {
	start, needs := program, []string{program}
	if _, ok := has(files, wrapper); ok {
		start, needs = "./"+wrapper, []string{"java"}
	}
	return Part{Language: "Java", Sign: sign, Test: start + " " + test, Build: start + " " + build, Needs: needs}
}

// Rules of a Makefile; an assignment such as "test := 1" is none.
var (
	testRule  = pattern.New(`(?m)^test[ \t]*:([^=]|$)`)
	checkRule = pattern.New(`(?m)^check[ \t]*:([^=]|$)`)
)

func makefile(files map[string][]byte) (Part, bool) {
	sign, _ := has(files, "GNUmakefile", "makefile", "Makefile")
	text, name := string(files[sign]), "test"
	if !testRule.MatchString(text) {
		name = "check"
		if !checkRule.MatchString(text) {
			return Part{}, false
		}
	}
	return Part{Language: "a Makefile", Sign: sign, Test: "make " + name, Needs: []string{"make"}}, true
}
