package agentfile

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/pkg/events"
)

// roleKeys are the keys of a role entry. A pointer is nil where the file does not have the key.
type roleKeys struct {
	Role        *string  `toml:"role"`
	Agent       *string  `toml:"agent"`
	Prompt      *string  `toml:"prompt_template"`
	Max         *int64   `toml:"max_instances"`
	Names       []string `toml:"names"`
	Supervisory *bool    `toml:"supervisory"`
	Session     struct {
		Pattern *string `toml:"pattern"`
		WorkDir *string `toml:"work_dir"`
		Start   *string `toml:"start_command"`
	} `toml:"session"`
	Env    map[string]string `toml:"env"`
	Health struct {
		Ping     *string `toml:"ping_timeout"`
		Failures *int64  `toml:"consecutive_failures"`
		Cooldown *string `toml:"kill_cooldown"`
		Stuck    *string `toml:"stuck_threshold"`
	} `toml:"health"`
}

const (
	// builtIn is the start command of agents that a model drives.
	builtIn = "built-in"
	// maxFailures, leastHealth and mostHealth bound the thresholds.
	maxFailures = 100
	leastHealth = time.Second
	mostHealth  = 7 * 24 * time.Hour
	maxRoleDir  = 256
)

var (
	// patternRule holds the names of sessions apart: each has all parts of its agent's address, which have no "_", behind
	// at most one word.
	patternRule = pattern.New(`^([a-z0-9][a-z0-9-]{0,19}_)?\{project\}_\{role\}_\{name\}$`)
	roleDirRule = pattern.New(`^[A-Za-z0-9._{}/-]+$`)
	roleEnvRule = pattern.New(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	// stationEnv begins or is the name of a variable that the station, or how a program is loaded, depends on.
	stationEnv = pattern.New(`(?i)^(INSPAN_|NATS_|LD_|DYLD_|BASH_FUNC_|GIT_(DIR|CONFIG|SSH|EXEC|ASKPASS)|(PATH|HOME|SHELL|USER|IFS|ENV|BASH_ENV|TMPDIR|PWD)$)`)
)

// roleEntry is one file of a role.
type roleEntry struct {
	roleKeys
	// layer and file say where it stands, as people know it.
	layer, file string
	data        []byte
	errs        []error
}

// CheckRoleEntry returns what is wrong with the file of a role.
func CheckRoleEntry(file, role string, data []byte) error {
	return errors.Join(parseRoleEntry(layerSystem, file, role, data).errs...)
}

// parseRoleEntry reads the file of a role, whose name is role.
func parseRoleEntry(layer, file, role string, data []byte) *roleEntry {
	e := &roleEntry{layer: layer, file: file, data: data}
	if len(data) > MaxFrontmatter {
		e.errs = append(e.errs, &Error{Code: CodeLimit, File: file, Message: "the file is too large",
			Expected: fmt.Sprintf("at most %d bytes", MaxFrontmatter), Actual: fmt.Sprint(len(data))})
		return e
	}
	d := toml.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&e.roleKeys); err != nil {
		e.decoded(err)
		return e
	}
	e.check(role)
	return e
}

// decoded takes an error of the decoder apart.
func (e *roleEntry) decoded(err error) {
	const hint = "docs/roles.md lists the keys with their types"
	switch one := err.(type) { //nolint:errorlint // the decoder returns them bare
	case *toml.StrictMissingError:
		for _, x := range one.Errors {
			key := strings.Join(x.Key(), ".")
			line, _ := x.Position()
			e.errs = append(e.errs, &Error{Code: CodeUnknown, File: e.file, Line: line, Path: key,
				Message: "the key is not known",
				Hint:    didyoumean.Hint(key, roleKeyNames(), hint)})
		}
	case *toml.DecodeError:
		line, _ := one.Position()
		e.errs = append(e.errs, &Error{Code: CodeType, File: e.file, Line: line, Path: strings.Join(one.Key(), "."),
			Message: one.Error(), Hint: hint})
	default:
		e.errs = append(e.errs, &Error{Code: CodeType, File: e.file, Message: err.Error(), Hint: hint})
	}
}

// roleKeyNames are all keys that are known.
func roleKeyNames() (names []string) {
	var walk func(t reflect.Type, before string)
	walk = func(t reflect.Type, before string) {
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Type.Kind() == reflect.Struct {
				walk(f.Type, before+f.Tag.Get("toml")+".")
				continue
			}
			names = append(names, before+f.Tag.Get("toml"))
		}
	}
	walk(reflect.TypeFor[roleKeys](), "")
	return names
}

// line finds the line of a key, of which the last part stands alone; 0 where it does not.
func (e *roleEntry) line(key string) int {
	last := key[strings.LastIndexByte(key, '.')+1:]
	for i, line := range strings.Split(string(e.data), "\n") {
		head, _, _ := strings.Cut(line, "#")
		words := strings.FieldsFunc(head, func(r rune) bool { return strings.ContainsRune(" \t=,{}[]\".'", r) })
		if slices.Contains(words, last) {
			return i + 1
		}
	}
	return 0
}

func (e *roleEntry) fail(key, message, want, got, hint string) {
	e.errs = append(e.errs, &Error{Code: CodeValue, File: e.file, Line: e.line(key), Path: key, Message: message,
		Expected: want, Actual: got,
		Hint: hint})
}

func (e *roleEntry) check(role string) {
	if e.Role != nil && *e.Role != role {
		e.fail("role", "it is not the role of this file", shown(role), shown(*e.Role), "rename the file or the role")
	}
	if e.Agent != nil && !events.ValidID(*e.Agent) {
		e.fail("agent", "it is no name of a definition", "1 to 64 of A-Z a-z 0-9 _ and -", shown(*e.Agent), "")
	}
	if m := e.Max; m != nil && (*m < 1 || *m > events.MaxInstances) {
		e.fail("max_instances", "it is no quota", fmt.Sprintf("1 to %d", events.MaxInstances), fmt.Sprint(*m),
			"leave it out for any number; inspan agents stop AGENT keeps an agent from work")
	}
	e.checkNames()
	e.checkSession()
	e.checkEnv()
	e.checkHealth()
	if p := e.Prompt; p != nil && (strings.TrimSpace(*p) == "" || len(*p) > events.MaxRolePrompt ||
		strings.ContainsRune(*p, 0)) {
		e.fail("prompt_template", "it is no text", fmt.Sprintf("1 to %d bytes", events.MaxRolePrompt),
			fmt.Sprintf("%d bytes", len(*p)), "")
	} else if p != nil {
		e.checkTemplate("prompt_template", *p)
	}
}

// checkTemplate refuses what stands in braces and is no part of an address.
func (e *roleEntry) checkTemplate(key, text string) {
	rest := strings.NewReplacer("{project}", "", "{role}", "", "{name}", "").Replace(text)
	if i := strings.IndexByte(rest, '{'); i >= 0 {
		end := strings.IndexByte(rest[i:], '}')
		if end > 0 && end < 40 && !strings.ContainsAny(rest[i:i+end], " \n\t") {
			e.fail(key, "there is no such placeholder", "{project}, {role} and {name}", shown(rest[i:i+end+1]), "")
		}
	}
}

func (e *roleEntry) checkNames() {
	if len(e.Names) > events.MaxRoleNames {
		e.fail("names", "there are too many names", fmt.Sprintf("at most %d", events.MaxRoleNames), fmt.Sprint(len(e.Names)),
			"")
	}
	for i, name := range e.Names {
		if _, _, err := events.ParseAddress("a/b/" + name); err != nil {
			e.fail("names", "it is no name of an agent", "1 to 20 of a-z 0-9 and -", shown(name), "")
		} else if slices.Contains(e.Names[:i], name) {
			e.fail("names", "the name is there twice", "", shown(name), "leave one out")
		}
	}
}

func (e *roleEntry) checkSession() {
	if p := e.Session.Pattern; p != nil && !patternRule.MatchString(*p) {
		e.fail("session.pattern", "two agents could have the same session",
			"{project}_{role}_{name}, or WORD_{project}_{role}_{name}", shown(*p),
			"WORD is 1 to 20 of a-z 0-9 and -")
	}
	if d := e.Session.WorkDir; d != nil {
		at := strings.TrimPrefix(strings.NewReplacer("{town}", "{root}").Replace(*d), "{root}/")
		probe := events.AgentRole{}.Fill(at, "p/r/n")
		if len(at) > maxRoleDir || !roleDirRule.MatchString(at) || strings.ContainsAny(probe, "{}") || !localPath(probe) {
			e.fail("session.work_dir", "it is no folder of the workspace",
				"a path below {root}, with {project}, {role} and {name}", shown(*d),
				"leave it out for the workspace itself")
		} else {
			*d = at
		}
	}
	if s := e.Session.Start; s != nil && *s != builtIn && !strings.HasPrefix(*s, runtimePrefix) {
		e.fail("session.start_command", "it is no runtime", builtIn+" or "+runtimePrefix+"NAME", shown(*s),
			"inspan runtimes list names the runtimes; a command is written in "+"runtimes/NAME.toml")
	}
}

// localPath reports whether a path stays where it begins, in one spelling.
func localPath(at string) bool {
	for part := range strings.SplitSeq(at, "/") {
		if part == "" || part == "." || part == ".." || strings.EqualFold(part, ".git") ||
			strings.EqualFold(part, ".harness") {
			return false
		}
	}
	return true
}

func (e *roleEntry) checkEnv() {
	if len(e.Env) > events.MaxRoleEnv {
		e.fail("env", "there are too many variables", fmt.Sprintf("at most %d", events.MaxRoleEnv), fmt.Sprint(len(e.Env)),
			"")
	}
	for name, value := range e.Env {
		key := "env." + name
		switch {
		case !roleEnvRule.MatchString(name):
			e.fail(key, "it is no name of a variable", "letters, digits and _", shown(name), "")
		case stationEnv.MatchString(name):
			e.fail(key, "the station sets this variable, or programs depend on it", "", shown(name), "choose another name")
		case secret.Named(name) || strings.HasPrefix(value, "secret:"):
			e.fail(key, "a secret does not belong into a role: its agents, and all who read their runs, see its environment",
				"", "",
				"name the secret in the runtime, or in the settings of the tool server, that needs it")
		case len(value) > events.MaxRoleEnvValue || strings.ContainsAny(value, "\x00\n\r"):
			e.fail(key, "it is no value of a variable", fmt.Sprintf("one line of at most %d bytes", events.MaxRoleEnvValue),
				fmt.Sprintf("%d bytes", len(value)), "")
		default:
			e.checkTemplate(key, value)
		}
	}
}

func (e *roleEntry) checkHealth() {
	for key, text := range map[string]*string{"health.ping_timeout": e.Health.Ping,
		"health.kill_cooldown":   e.Health.Cooldown,
		"health.stuck_threshold": e.Health.Stuck} {
		if text == nil {
			continue
		}
		if d, err := time.ParseDuration(*text); err != nil || d < leastHealth || d > mostHealth {
			e.fail(key, "it is no length of time", fmt.Sprintf("%s to %s", leastHealth, mostHealth), shown(*text), `write it as "15m"`)
		}
	}
	if n := e.Health.Failures; n != nil && (*n < 1 || *n > maxFailures) {
		e.fail("health.consecutive_failures", "it is no number of failures", fmt.Sprintf("1 to %d", maxFailures),
			fmt.Sprint(*n), "")
	}
}
