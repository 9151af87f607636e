// Package trust knows what a person accepted of a directory that may be somebody else's.
//
// Promises: what is accepted is the content, by its digest, at its path; a file that is added, changed or removed makes
// it new again. The record is outside of every project, only its owner can write it, and it changes in one move. What
// is accepted is copied into a folder beside the record and used from there, so that what was shown is what runs, also
// where the directory changes after that. Nothing outside of a directory is read by way of a link in it.
package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/runtime"
)

// Kinds of what a directory contributes.
const (
	Agents   = "agents"
	Scripts  = "scripts"
	Settings = "settings"
	Commands = "commands"
	Formulas = "formulas"
	// Schedules is a folder of files that say when agents begin runs.
	Schedules = "schedules"
	Store     = "store"
)

// Limits of what one folder contributes.
const (
	MaxFiles = 2000
	MaxBytes = 32 << 20
)

// Errors that callers tell apart.
var (
	// ErrTooLarge means that a folder has more than can be shown to a person.
	ErrTooLarge = errors.New("too large to be accepted")
	// ErrIrregular means that a folder has something else than files and folders.
	ErrIrregular = errors.New("not a regular file")
)

// Part is one thing that a directory contributes, as it was when it was read.
type Part struct {
	Kind string
	// Path is absolute and without links: of a folder, or of a file.
	Path string
	// Files are the contents by their paths below Path, with slashes; a single file has its own name.
	Files map[string][]byte
}

// ReadAgents reads a folder of agent files: all that is below it, because an agent may name any of it. A folder without
// an agent and without a runtime contributes nothing.
func ReadAgents(dir string) (Part, error) {
	p, err := readFolder(Agents, dir, func(string) bool { return true })
	if err == nil && !slices.ContainsFunc(slices.Collect(maps.Keys(p.Files)), contributes) {
		p.Files = nil
	}
	return p, err
}

// isAgent reports whether a station would read a file as an agent: one of the folder itself, or of PROJECT/ROLE in it.
func isAgent(name string) bool {
	n := strings.Count(name, "/")
	return strings.HasSuffix(name, ".prompt") && (n == 0 || n == 2)
}

// contributes reports whether a file of a folder of agents makes it worth to be looked at.
func contributes(name string) bool { return isAgent(name) || isRuntime(name) }

// isRuntime reports whether a file says what program a runtime is.
func isRuntime(name string) bool {
	dir, file := path.Split(name)
	return dir == runtime.Folder+"/" && strings.HasSuffix(file, runtime.Ext)
}

// ReadScripts reads the scripts of a folder, which stand in the folder itself.
func ReadScripts(dir string) (Part, error) {
	return readFolder(Scripts, dir, func(name string) bool {
		return !strings.Contains(name, "/") && strings.HasSuffix(name, ".yaml")
	})
}

// ReadCommands reads the commands of the conversation that a folder has, which stand in the folder itself.
func ReadCommands(dir string) (Part, error) {
	return readFolder(Commands, dir, func(name string) bool {
		return !strings.Contains(name, "/") && strings.HasSuffix(name, ".md")
	})
}

// ReadFormulas reads the formulas of a folder and their overlays, which stand in the folder itself.
func ReadFormulas(dir string) (Part, error) {
	return readFolder(Formulas, dir, func(name string) bool {
		return !strings.Contains(name, "/") &&
			(strings.HasSuffix(name, ".toml") || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml"))
	})
}

// ReadSchedules reads the schedules of a folder, which stand in the folder itself.
func ReadSchedules(dir string) (Part, error) {
	return readFolder(Schedules, dir, func(name string) bool {
		return !strings.Contains(name, "/") && (strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml"))
	})
}

// Read reads a part of a kind again.
func Read(kind, at string) (Part, error) {
	switch kind {
	case Agents:
		return ReadAgents(at)
	case Scripts:
		return ReadScripts(at)
	case Commands:
		return ReadCommands(at)
	case Formulas:
		return ReadFormulas(at)
	case Schedules:
		return ReadSchedules(at)
	case Settings:
		text, err := os.ReadFile(at)
		if err != nil {
			return Part{}, err
		}
		return File(kind, at, text)
	}
	p, there, err := ReadStore(at)
	if err == nil && !there {
		err = fs.ErrNotExist
	}
	return p, err
}

// File is a part of one file that was read already.
func File(kind, at string, text []byte) (Part, error) {
	real, err := realPath(at)
	return Part{Kind: kind, Path: real, Files: map[string][]byte{filepath.Base(at): text}}, err
}

// realPath is absolute and has no links.
func realPath(at string) (string, error) {
	abs, err := filepath.Abs(at)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

func readFolder(kind, dir string, wanted func(name string) bool) (p Part, err error) {
	p = Part{Kind: kind, Files: map[string][]byte{}}
	if p.Path, err = realPath(dir); err != nil {
		return p, err
	}
	root, err := os.OpenRoot(p.Path)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	size := 0
	return p, fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !wanted(name) {
			return err
		}
		text, err := readFile(root, name, MaxBytes-size)
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(p.Path, name), err)
		}
		if size += len(text); size > MaxBytes || len(p.Files) == MaxFiles {
			return fmt.Errorf("%s: more than %d files or %d MiB: %w (name a smaller folder with --agents or --scripts)", p.Path,
				MaxFiles, MaxBytes>>20, ErrTooLarge)
		}
		p.Files[name] = text
		return nil
	})
}

// readFile reads one byte more than there is room for where the file has more. What a link leads to is read where it is
// a file of the folder.
func readFile(root *os.Root, name string, room int) (text []byte, err error) {
	info, err := root.Stat(name) // before it is opened, so that a pipe is never waited for
	if err != nil {
		return nil, fmt.Errorf("%w (replace the link by the file itself)", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w but %s (replace it by what it stands for)", ErrIrregular, info.Mode().Type())
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, int64(room)+1))
}

// Empty reports whether there is nothing to accept.
func (p Part) Empty() bool { return len(p.Files) == 0 }

// Hashes are the SHA-256 of the files, in hex.
func (p Part) Hashes() map[string]string {
	out := map[string]string{}
	for name, text := range p.Files {
		sum := sha256.Sum256(text)
		out[name] = hex.EncodeToString(sum[:])
	}
	return out
}

// Digest is of all files and their names, in hex.
func (p Part) Digest() string {
	sum, hashes := sha256.New(), p.Hashes()
	fmt.Fprintf(sum, "inspan trust 1 %s\n", p.Kind)
	for _, name := range slices.Sorted(maps.Keys(hashes)) {
		fmt.Fprintf(sum, "%q %s\n", name, hashes[name])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Differences names what is not as it was, one name a line: + for a new file, - for one that was removed, ~ for one
// that was changed.
func (p Part) Differences(was map[string]string) []string {
	now := p.Hashes()
	var out []string
	for name, hash := range now {
		switch old, ok := was[name]; {
		case !ok:
			out = append(out, "+ "+name)
		case old != hash:
			out = append(out, "~ "+name)
		}
	}
	for name := range was {
		if _, ok := now[name]; !ok {
			out = append(out, "- "+name)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return strings.Compare(a[2:], b[2:]) })
	return out
}

// Pin copies a part into a folder of its own below dir and returns that. The copy is by content: the same part always
// has the same one, and one that is not as it should be is made again.
func (p Part) Pin(dir string) (string, error) {
	at := filepath.Join(dir, p.Digest())
	if p.sameAs(at) {
		return at, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	half, err := os.MkdirTemp(dir, ".part-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(half) }() // it has moved where all went well
	for name, text := range p.Files {
		to := filepath.Join(half, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return "", err
		}
		if err := os.WriteFile(to, text, 0o600); err != nil {
			return "", err
		}
	}
	if err := os.RemoveAll(at); err != nil {
		return "", err
	}
	if err := os.Rename(half, at); err != nil && !p.sameAs(at) { // unless another process was faster
		return "", err
	}
	return at, nil
}

func (p Part) sameAs(dir string) bool {
	there, err := readFolder(p.Kind, dir, func(string) bool { return true })
	return err == nil && there.Digest() == p.Digest()
}

// Below reports whether a path is a directory or lies in it.
func Below(dir, at string) bool {
	rel, err := filepath.Rel(dir, at)
	return err == nil && (rel == "." || filepath.IsLocal(rel))
}
