package pool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/gocache"
)

// Shared is a cache of the compiled standard library of Go that all sandboxes of this machine read and none writes. It
// is filled by a sandbox of its own, which has a module of ours and nothing of any run, and whose result nothing can
// write any more: so no run can change what another one reads.
type Shared struct {
	// Dir is the absolute path of the person's folder for such caches, Program one that is gocache.Main; empty means none.
	Dir, Program string
	// filling holds the place of the caches that this process fills.
	filling sync.Map
}

// fillTime bounds how long a shared cache may take to fill.
const fillTime = 20 * time.Minute

// share lets a sandbox on a Go module read the shared cache. Where there is none yet it is filled in the background,
// for the next one.
func (o *Opener) share(cfg *sandbox.Config, backend sandbox.Backend) {
	s := o.cfg.Shared
	if s == nil || s.Dir == "" || s.Program == "" || !slices.Contains([]sandbox.Mode{sandbox.Bwrap, sandbox.Landlock},
		backend.Mode()) || !isModule(cfg.Workspace) || slices.ContainsFunc(cfg.Env, func(e string) bool {
		return strings.HasPrefix(e, "GOCACHEPROG=") || strings.HasPrefix(e, "GOCACHE=")
	}) {
		return
	}
	at, err := s.place(cfg.Env)
	if err != nil || below(s.Program, append([]string{cfg.Workspace}, cfg.Writable...)) {
		return // there is no go command, or a run could change the program
	}
	if _, err := os.Stat(filepath.Join(at, doneFile)); err != nil {
		s.begin(at, backend, cfg.Env)
		return
	}
	env, err := gocache.Env(s.Program, at)
	if err != nil {
		return
	}
	cfg.ReadOnly = append(slices.Clone(cfg.ReadOnly), at, s.Program)
	cfg.Env = append(slices.Clone(cfg.Env), env)
}

// doneFile is in a shared cache that is full.
const doneFile = "inspan-done"

// isModule reports whether a workspace has Go at its top.
func isModule(dir string) bool {
	for _, name := range []string{"go.mod", "go.work"} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// place is where the cache for the go command of an environment is: another command, or other settings of it, have
// another one.
func (s *Shared) place(env []string) (string, error) {
	sum := sha256.New()
	path := os.Getenv("PATH")
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			path = v
		}
		if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, "GO") || strings.HasPrefix(name, "CGO") {
			fmt.Fprintf(sum, "%s\x00", e)
		}
	}
	for _, dir := range filepath.SplitList(path) {
		program, err := exec.LookPath(filepath.Join(dir, "go"))
		if err != nil {
			continue
		}
		if program, err = filepath.EvalSymlinks(program); err != nil {
			return "", err
		}
		info, err := os.Stat(program)
		if err != nil {
			return "", err
		}
		version, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(program)), "VERSION"))
		fmt.Fprintf(sum, "%s\x00%d\x00%d\x00%s", program, info.Size(), info.ModTime().UnixNano(), version)
		return filepath.Join(s.Dir, hex.EncodeToString(sum.Sum(nil)[:16])), err
	}
	return "", exec.ErrNotFound
}

// begin fills a cache in the background, once for this process and one at a time for the machine.
func (s *Shared) begin(at string, backend sandbox.Backend, env []string) {
	if _, begun := s.filling.LoadOrStore(at, true); begun {
		return
	}
	go func() { // it ends by itself, or with this process: what is half is never read
		ctx, cancel := context.WithTimeout(context.Background(), fillTime)
		defer cancel()
		_ = s.Fill(ctx, at, backend, env) // the next process tries again; runs compile what they need meanwhile
	}()
}

// Fill fills a cache. The sandbox that compiles sees a module of ours alone.
func (s *Shared) Fill(ctx context.Context, at string, backend sandbox.Backend, env []string) (err error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	lock, err := disk.TakeLock(at + ".lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	half := at + ".part"
	if _, err := os.Stat(filepath.Join(at, doneFile)); err == nil {
		return nil // another process was faster
	}
	// What a process that ended had compiled is gone on with: nothing but a sandbox of this kind has written there.
	if err := errors.Join(os.RemoveAll(at), os.MkdirAll(half, 0o755)); err != nil {
		return err
	}
	module, err := os.MkdirTemp("", "inspan-std-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(module)) }()
	if err := os.WriteFile(filepath.Join(module, "go.mod"), []byte("module std.test\n"), 0o644); err != nil {
		return err
	}
	sb, err := backend.Open(ctx, sandbox.Config{ID: "go-cache", Workspace: module, Writable: []string{half},
		ReadOnly: goRoots(env), Env: append(slices.Clone(env), "GOCACHE="+half, "GOTOOLCHAIN=local", "GOPROXY=off")})
	if err != nil {
		return err
	}
	exit, err := sb.Exec(ctx, sandbox.Cmd{Args: []string{"sh", "-c", fillScript}, Stdout: io.Discard, Stderr: io.Discard})
	err = errors.Join(err, sb.Destroy(context.WithoutCancel(ctx)))
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("compile the standard library: exit %d", exit.Code)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(half, doneFile), nil, 0o644)
	}
	if err == nil {
		err = os.Rename(half, at)
	}
	return err
}

// fillScript compiles the standard library as go build, go test and go vet want it. It gives way to other work.
const fillScript = `set -e
{ echo 'package std'; go list -f '{{if not .Incomplete}}{{.ImportPath}}{{end}}' std | grep -v -e internal -e vendor -e '^unsafe$' -e '^builtin$' |
  sed 's/.*/import _ "&"/'; } > std_test.go
echo 'package std' > std.go
nice -n 19 go build std
nice -n 19 go test -count=1 ./...
`

// goRoots are the directories that the go command of an environment is in.
func goRoots(env []string) (roots []string) {
	for _, e := range env {
		path, ok := strings.CutPrefix(e, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(path) {
			if _, err := os.Stat(filepath.Join(dir, "go")); err == nil && !strings.HasPrefix(dir, "/usr/bin") {
				roots = append(roots, filepath.Dir(dir))
			}
		}
	}
	return roots
}
