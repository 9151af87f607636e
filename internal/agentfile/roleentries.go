package agentfile

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/pkg/events"
)

const (
	// RoleEntries is the folder of roles of all projects, each as ROLE.toml.
	RoleEntries = "roles"
	// RoleEntry is the file of a role in the folder PROJECT/ROLE. Its values come before those of all projects.
	RoleEntry = "role.toml"
	roleExt   = ".toml"
	// maxRoleFiles is how many files of roles a folder of agents has.
	maxRoleFiles = 256
)

// Layers of the values of a role, the first first; these are the names that inspan config explain has for them.
const (
	layerProject = "project"
	layerSystem  = "system"
)

// supervisors are the roles that are supervisory where their files do not say.
var supervisors = []string{"lead", "supervisor", "mayor", "deacon", "witness"}

// entries reads the roles of the folder and gives each to the definition that its agents run.
func (l *loadingDir) entries(root *os.Root) error {
	shared, own, err := roleFiles(root)
	if err != nil {
		return err
	}
	system, project := l.readRoles(root, layerSystem, shared), l.readRoles(root, layerProject, own)
	for _, role := range slices.Sorted(maps.Keys(system)) {
		if e := system[role]; e.Agent != nil { // else it is only what projects share
			l.enlist(role, e)
		}
	}
	for _, role := range slices.Sorted(maps.Keys(project)) {
		layers := []*roleEntry{project[role]}
		if e := system[path.Base(role)]; e != nil {
			layers = append(layers, e)
		}
		l.enlist(role, layers...)
	}
	return nil
}

// roleFiles finds the files of roles: those that projects share, and those of projects. It opens directories alone, so
// that a pipe is never waited for.
func roleFiles(root *os.Root) (shared, own []string, err error) {
	top, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, nil, err
	}
	for _, folder := range top {
		if !folder.IsDir() {
			continue
		}
		below, err := fs.ReadDir(root.FS(), folder.Name())
		if err != nil {
			return nil, nil, err
		}
		for _, e := range below {
			at := path.Join(folder.Name(), e.Name())
			if folder.Name() == RoleEntries && strings.HasSuffix(at, roleExt) && !e.IsDir() {
				shared = append(shared, at)
			}
			if !e.IsDir() {
				continue
			}
			if _, err := root.Lstat(path.Join(at, RoleEntry)); err == nil {
				own = append(own, path.Join(at, RoleEntry))
			}
		}
	}
	if n := len(shared) + len(own); n > maxRoleFiles {
		return nil, nil, &Error{Code: CodeLimit, Message: "there are too many roles",
			Expected: fmt.Sprintf("at most %d", maxRoleFiles), Actual: fmt.Sprint(n)}
	}
	return shared, own, nil
}

// readRoles reads the files of roles of a layer, and returns those that are sound by their roles.
func (l *loadingDir) readRoles(root *os.Root, layer string, files []string) map[string]*roleEntry {
	all := map[string]*roleEntry{}
	for _, file := range files {
		role := path.Dir(file)
		if layer == layerSystem {
			role = strings.TrimSuffix(path.Base(file), roleExt)
		}
		if err := events.ParseRole(role); err != nil {
			l.errs = append(l.errs, &Error{Code: CodeValue, File: file, Message: "it is no role: " + err.Error(),
				Actual: shown(role),
				Hint:   "rename the folder or the file: each part is 1 to 20 of a-z 0-9 and -"})
			continue
		}
		data, err := readUpTo(root, file, MaxFrontmatter)
		if err != nil {
			l.errs = append(l.errs, err)
			continue
		}
		if e := parseRoleEntry(layer, file, path.Base(role), data); len(e.errs) > 0 {
			l.errs = append(l.errs, e.errs...)
		} else {
			all[role] = e
		}
	}
	return all
}

// enlist gives a role to the definition that its agents run. layers are its files, the first before the others.
func (l *loadingDir) enlist(role string, layers ...*roleEntry) {
	r, errs := roleOf(role, layers...)
	top := layers[0]
	a, known := l.agents[r.Agent]
	switch {
	case r.Agent == "":
		errs = append(errs, &Error{Code: CodeMissing, File: top.file, Path: "agent", Message: "the role names no definition",
			Hint: `write agent = "NAME": that of an agent file`})
	case !known:
		errs = append(errs, &Error{Code: CodeValue, File: top.file, Line: top.line("agent"), Path: "agent",
			Message: "there is no such agent in the folder, or its file is wrong",
			Actual:  shown(r.Agent), Hint: didyoumean.Hint(r.Agent, slices.Sorted(maps.Keys(l.agents)),
				"inspan agents --dir DIR lists those that are sound")})
	case r.Start != "" && r.Start != startOf(a):
		errs = append(errs, &Error{Code: CodeConflict, File: top.file, Line: top.line("start_command"),
			Path:    "session.start_command",
			Message: "the agent " + a.Name + " is not started in this way", Expected: startOf(a), Actual: shown(r.Start),
			Hint: "name a definition that has this runtime, or write runtime: NAME in " + a.Name + Ext})
	}
	if len(errs) > 0 {
		l.errs = append(l.errs, errs...)
		return
	}
	r.Start = startOf(a)
	a.Roles = append(slices.Clone(a.Roles), r)
	a.Digest = events.HashOf(fmt.Appendf(nil, "%s\nrole %s %s\n", a.Digest, r.Name, r.Digest))
	l.agents[a.Name] = a
}

// startOf is what carries a definition out.
func startOf(a events.Agent) string {
	if a.Runtime != nil {
		return runtimePrefix + a.Runtime.Name
	}
	return builtIn
}

// roleOf puts the values of a role together: each is that of the first file that has it, or what is built in.
func roleOf(role string, layers ...*roleEntry) (events.AgentRole, []error) {
	r := events.AgentRole{Name: role, Pattern: "{project}_{role}_{name}",
		Supervisory: slices.Contains(supervisors, path.Base(role)),
		From:        map[string]string{}}
	digest := ""
	take := func(key string, has func(*roleEntry) bool, set func(*roleEntry)) {
		for _, e := range layers {
			if has(e) {
				set(e)
				r.From[key] = fmt.Sprintf("%s %s:%d", e.layer, e.file, e.line(key))
				return
			}
		}
		r.From[key] = builtIn
	}
	text := func(key string, of func(*roleEntry) *string, to *string) {
		take(key, func(e *roleEntry) bool { return of(e) != nil }, func(e *roleEntry) { *to = *of(e) })
	}
	long := func(key string, of func(*roleEntry) *string, to *int64) {
		take(key, func(e *roleEntry) bool { return of(e) != nil }, func(e *roleEntry) {
			d, _ := time.ParseDuration(*of(e)) // it was checked
			*to = d.Milliseconds()
		})
	}
	text("agent", func(e *roleEntry) *string { return e.Agent }, &r.Agent)
	text("prompt_template", func(e *roleEntry) *string { return e.Prompt }, &r.Prompt)
	text("session.pattern", func(e *roleEntry) *string { return e.Session.Pattern }, &r.Pattern)
	text("session.work_dir", func(e *roleEntry) *string { return e.Session.WorkDir }, &r.WorkDir)
	text("session.start_command", func(e *roleEntry) *string { return e.Session.Start }, &r.Start)
	long("health.ping_timeout", func(e *roleEntry) *string { return e.Health.Ping }, &r.Health.PingMS)
	long("health.stuck_threshold", func(e *roleEntry) *string { return e.Health.Stuck }, &r.Health.StuckMS)
	long("health.kill_cooldown", func(e *roleEntry) *string { return e.Health.Cooldown }, &r.Health.CooldownMS)
	take("health.consecutive_failures", func(e *roleEntry) bool { return e.Health.Failures != nil },
		func(e *roleEntry) { r.Health.Failures = int(*e.Health.Failures) })
	take("max_instances", func(e *roleEntry) bool { return e.Max != nil }, func(e *roleEntry) { r.Max = int(*e.Max) })
	take("names", func(e *roleEntry) bool { return e.Names != nil }, func(e *roleEntry) { r.Names = e.Names })
	take("supervisory", func(e *roleEntry) bool { return e.Supervisory != nil }, func(e *roleEntry) { r.Supervisory = *e.Supervisory })
	for _, e := range slices.Backward(layers) { // each variable for itself
		for name, value := range e.Env {
			if r.Env == nil {
				r.Env = map[string]string{}
			}
			r.Env[name] = value
			r.From["env."+name] = fmt.Sprintf("%s %s:%d", e.layer, e.file, e.line("env."+name))
		}
		digest = events.HashOf(fmt.Appendf(nil, "%s%s\n%s", digest, e.file, e.data))
	}
	r.Digest = digest
	if len(r.Env) > events.MaxRoleEnv { // each file has fewer
		return r, []error{&Error{Code: CodeLimit, File: layers[0].file, Path: "env",
			Message:  "there are too many variables with those of all projects",
			Expected: fmt.Sprintf("at most %d", events.MaxRoleEnv), Actual: fmt.Sprint(len(r.Env))}}
	}
	return r, nil
}
