// Package agentdir tells agents by the directory that they work in.
//
// Promises: a home's path below the root is project/role/name, and nothing else; Path and Parse are each other's
// inverse, so a path names one agent and an agent has one path. No home is where working trees are. Pure functions of
// their arguments: nothing here looks at a file system.
package agentdir

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// ID is who an agent is: each part is an id, 1 to 64 characters of A-Z a-z 0-9 _ and -.
type ID struct {
	Project, Role, Name string
}

// ErrNoHome is returned for a path that is no agent's home.
var ErrNoHome = errors.New("not an agent directory")

// trees are what the paths of working trees begin with; no project has such a name.
var trees = [...]string{"session", "workflow", "run", "shared"}

// Path of an agent's home below the root, with slashes.
func Path(id ID) (string, error) {
	if err := id.check(); err != nil {
		return "", err
	}
	return path.Join(id.Project, id.Role, id.Name), nil
}

// Parse tells whose home a path below the root is. Only what Path gives is one.
func Parse(at string) (ID, error) {
	parts := strings.Split(at, "/")
	if len(parts) != 3 {
		return ID{}, fmt.Errorf("%w: %.200q is not project/role/name", ErrNoHome, at)
	}
	id := ID{Project: parts[0], Role: parts[1], Name: parts[2]}
	return id, id.check()
}

func (id ID) check() error {
	err := errors.Join(events.CheckID("project", id.Project), events.CheckID("role", id.Role),
		events.CheckID("agent", id.Name))
	if err == nil && slices.Contains(trees[:], id.Project) {
		err = fmt.Errorf("a project cannot be named %s: that folder has the working trees", id.Project)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoHome, err)
	}
	return nil
}
