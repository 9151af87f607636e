package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/moby/client"

	"github.com/inspan/inspan/internal/sandbox/local"
)

// Labels of containers: whose they are, where the private directory of their sandbox is, and on which machine.
const (
	labelSandbox = "inspan.box"
	labelPrivate = "inspan.private"
	labelMachine = "inspan.machine"
)

func (b *instance) labels() map[string]string {
	return map[string]string{labelSandbox: b.Name(), labelPrivate: filepath.Dir(b.Private("home")),
		labelMachine: machine()}
}

// machine names this machine and its start: process numbers mean something else on another, which may share an engine.
func machine() string {
	name, _ := os.Hostname() // empty is one too
	id, _ := os.ReadFile("/etc/machine-id")
	return name + "." + strings.TrimSpace(string(id))
}

// left remembers that a container could not be removed.
func (b *Backend) left() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dirty = true
}

// tidy removes what could not be removed before, where there is something.
func (b *Backend) tidy(ctx context.Context) {
	b.mu.Lock()
	dirty := b.dirty
	b.mu.Unlock()
	if !dirty {
		return
	}
	if _, err := b.Reap(ctx); err == nil {
		b.mu.Lock()
		b.dirty = false
		b.mu.Unlock()
	}
}

// Reap removes containers whose toolrunner is known to be gone and those whose sandbox is destroyed, and returns how
// many there were. Those of the living, and of other machines that share the engine, are left alone. What could not be
// removed is told, and does not keep the rest from being removed.
func (b *Backend) Reap(ctx context.Context) (int, error) {
	c, err := b.client()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, engineWait)
	defer cancel()
	list, err := c.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label",
		labelMachine+"="+machine())})
	if err != nil {
		return 0, fmt.Errorf("list containers: %w", err)
	}
	n := 0
	var failed []error
	for _, one := range list.Items {
		if !abandoned(one.Labels) {
			continue
		}
		if err := remove(ctx, c, one.ID); err != nil {
			failed = append(failed, fmt.Errorf("remove container %s: %w", one.ID, err))
			continue
		}
		n++
	}
	return n, errors.Join(failed...)
}

// abandoned reports whether the sandbox of a container is gone.
func abandoned(labels map[string]string) bool {
	name, private := labels[labelSandbox], labels[labelPrivate]
	if !strings.HasPrefix(name, local.SandboxPrefix) || filepath.Base(private) != name ||
		labels[labelMachine] != machine() {
		return false
	}
	if local.Abandoned(name) {
		return true
	}
	_, err := os.Lstat(private)
	return local.Mine(name) && errors.Is(err, os.ErrNotExist)
}
