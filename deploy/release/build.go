package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// target is a system that is built for.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "/" + t.arch }

var all = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

func chosen(only string) ([]target, error) {
	if only == "" {
		return all, nil
	}
	for _, t := range all {
		if t.String() == only {
			return []target{t}, nil
		}
	}
	return nil, fmt.Errorf("-only %q: want one of %v", only, all)
}

// source is the commit that is built, in a clone of its own.
type source struct {
	// origin is the repository that was cloned, dir the clone.
	origin, dir string
	date        time.Time
}

// checkout clones a commit and tags it there as the version, from which Go knows the version of what it builds.
func checkout(ctx context.Context, dir, version, commit string) (source, error) {
	origin, err := output(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return source{}, err
	}
	sha, err := output(ctx, ".", "git", "rev-parse", "--verify", commit+"^{commit}")
	if err != nil {
		return source{}, err
	}
	for _, args := range [][]string{
		{"clone", "--quiet", "--no-checkout", "--no-tags", origin, dir},
		{"-C", dir, "checkout", "--quiet", "--detach", sha},
		{"-C", dir, "tag", "v" + version},
	} {
		if _, err := output(ctx, ".", "git", args...); err != nil {
			return source{}, err
		}
	}
	text, err := output(ctx, dir, "git", "log", "-1", "--format=%cI")
	if err != nil {
		return source{}, err
	}
	date, err := time.Parse(time.RFC3339, text)
	return source{origin: origin, dir: dir, date: date.UTC()}, err
}

// release is a release that is being made.
type release struct {
	version, base, out string
	src                source
	// host is inspan for this machine, completions what it says for each shell.
	host        string
	completions map[string][]byte
}

// programs are the programs of a system: what a person installs, and what an image has beside it.
func programs(t target) (installed, services []string) {
	installed = []string{"inspan"}
	if t.os == "linux" {
		installed = append(installed, "inspan-within")
		services = []string{"planner", "gatekeeper", "executor", "toolrunner", "persister", "gateway", "healthcheck"}
	}
	return installed, services
}

// build compiles the programs of a system into a directory.
func (r *release) build(ctx context.Context, t target, dir string) error {
	installed, services := programs(t)
	args := []string{"build", "-trimpath", "-buildvcs=true", "-pgo=deploy/release/inspan.pgo", "-ldflags=-s -w", "-o", dir + string(filepath.Separator)}
	for _, p := range append(installed, services...) {
		args = append(args, "./cmd/"+p)
	}
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = r.src.dir
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS="+t.os, "GOARCH="+t.arch)
	if text, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, text)
	}
	return nil
}

// shell builds inspan for this machine and takes the completions that it writes.
func (r *release) shell(ctx context.Context, dir string) error {
	own := target{runtime.GOOS, runtime.GOARCH}
	if err := r.build(ctx, own, dir); err != nil {
		return err
	}
	r.host, r.completions = filepath.Join(dir, "inspan"), map[string][]byte{}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		text, err := output(ctx, dir, r.host, "completion", shell)
		if err != nil {
			return err
		}
		r.completions[shell] = []byte(text + "\n")
	}
	return nil
}

// output runs a program and returns what it printed, without the spaces around it.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	var stderr bytes.Buffer
	c.Stderr = &stderr
	b, err := c.Output()
	if err != nil {
		err = errors.Join(fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args, " "), err),
			errors.New(strings.TrimSpace(stderr.String())))
	}
	return strings.TrimSpace(string(b)), err
}
