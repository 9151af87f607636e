package agentfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/inspan/inspan/internal/core/agentdir"
	"github.com/inspan/inspan/pkg/events"
)

// RoleFile is what the agents of a role class share: a file in the folder PROJECT/ROLE of the folder of agents, which
// is the ancestor of them all.
const RoleFile = "role.yaml"

// Role is what the agents of a role class have in common (WS-9): rules below their own, hooks that are asked before
// theirs, and settings for what they do not say themselves.
type Role struct {
	Policy
	Defaults Defaults
	// Project and Name say which role it is, Digest is the SHA-256 (hex) of its file, empty where there is none.
	Project, Name, Digest string
}

// ParseRole reads the file of a role: YAML with "version: 1", "rules" and "hooks" as in the policy of a station, and
// "harness" as in a configuration file. name is the file's name, for messages.
func ParseRole(name string, data []byte) (Role, []Warning, error) {
	p := &parsing{file: name}
	root := p.plain(data, map[string]field{harnessTop: acts(defaultsShape())})
	r := Role{Policy: p.policy(root)}
	warnings, err := p.found()
	if err != nil {
		return Role{}, warnings, err
	}
	r.Defaults = defaultsOf(root, nil)
	r.Digest = events.HashOf(data)
	return r, warnings, nil
}

// at is a file of the role's folder, as people know it.
func (r Role) at(file string) string { return path.Join(r.Project, r.Name, file) }

// location puts the role's folder before the names of files in an error that was made just now.
func (r Role) position(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // it is taken apart
		for _, one := range joined.Unwrap() {
			_ = r.position(one) // it was changed
		}
	} else if e, ok := errors.AsType[*Error](err); ok {
		e.File = r.at(e.File)
	}
	return err
}

// share gives an agent what is its role's. The agent may replace and remove rules that are not locked; the hooks stay.
func (r Role) share(file string, a events.Agent) (events.Agent, error) {
	if r.Project == "" {
		return a, nil
	}
	fault := func(what, hint string) error {
		return &Error{Code: CodeConflict, File: file, Message: what, Hint: hint}
	}
	if _, err := agentdir.Path(agentdir.ID{Project: r.Project, Role: r.Name, Name: a.Name}); err != nil {
		return a, fault(err.Error(), "rename the folder")
	}
	a.Project, a.Role = r.Project, r.Name
	rules := slices.Clone(r.Rules)
	for _, own := range a.Guards {
		i := slices.IndexFunc(rules, func(shared events.Rule) bool { return shared.ID == own.ID })
		switch {
		case i < 0:
			rules = append(rules, own)
		case rules[i].Locked:
			return a, fault("the rule "+own.ID+" is locked by "+r.at(RoleFile), "choose another id for your rule")
		default:
			rules[i] = own // also one that removes: it may be about the station's rule of that name, too
		}
	}
	if len(rules) > MaxRules {
		return a, &Error{Code: CodeLimit, File: file, Message: "there are too many rules with those of the role",
			Expected: fmt.Sprintf("at most %d", MaxRules), Actual: fmt.Sprint(len(rules))}
	}
	for _, own := range a.Hooks {
		if slices.ContainsFunc(r.Hooks, func(shared events.Hook) bool { return shared.ID == own.ID }) {
			return a, fault("the hook "+own.ID+" is one of "+r.at(RoleFile), "choose another id")
		}
	}
	a.Guards, a.Hooks = rules, append(slices.Clone(r.Hooks), a.Hooks...)
	a.Digest = events.HashOf(fmt.Appendf(nil, "%s\n%s %s\n", a.Digest, r.at(""), r.Digest))
	return a, nil
}

// roles reads the agents of the folders PROJECT/ROLE. Folders without agents, such as those of skills, are passed by.
func (l *loadingDir) roles(root *os.Root, d Defaults) error {
	projects, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	for _, project := range projects {
		if !project.IsDir() || !events.ValidID(project.Name()) {
			continue
		}
		roles, err := fs.ReadDir(root.FS(), project.Name())
		if err != nil {
			return err
		}
		for _, role := range roles {
			if !role.IsDir() || !events.ValidID(role.Name()) {
				continue
			}
			if err := l.role(root, project.Name(), role.Name(), d); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *loadingDir) role(root *os.Root, project, name string, d Defaults) error {
	sub, err := root.OpenRoot(path.Join(project, name))
	if err != nil {
		return err
	}
	defer sub.Close()
	names, err := promptFiles(sub)
	if err != nil || len(names) == 0 {
		return err
	}
	r, warned, err := readRole(sub)
	r.Project, r.Name = project, name
	for _, w := range warned {
		w.File = r.at(w.File)
		l.warnings = append(l.warnings, w)
	}
	if err != nil { // its agents would do without what they are to share
		l.errs = append(l.errs, r.position(err))
		return nil
	}
	r.Defaults = r.Defaults.Over(d)
	return l.files(sub, r)
}

// readRole reads the file of a role; a folder without one shares nothing.
func readRole(sub *os.Root) (Role, []Warning, error) {
	if _, err := sub.Lstat(RoleFile); errors.Is(err, fs.ErrNotExist) {
		return Role{}, nil, nil
	}
	data, err := readUpTo(sub, RoleFile, MaxFrontmatter)
	if err != nil {
		return Role{}, nil, err
	}
	return ParseRole(RoleFile, data)
}
