package agentfile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/inspan/inspan/pkg/events"
)

// Ext is the ending of the names of agent files.
const Ext = ".prompt"

// Limits of one file. Sizes are bytes.
const (
	MaxFile        = 256 << 10
	MaxFrontmatter = 64 << 10
	MaxTools       = 128
	MaxRules       = 256
	MaxDescription = 4 << 10
	// MaxErrors is how many errors of one file are reported.
	MaxErrors = 50
)

// Parse reads one agent definition. name is the file's name, with or without ".prompt"; the key "name" must equal
// it, and may be left out. The error joins one *Error for each thing that is wrong; the warnings are complete also
// then, as far as the file could be read.
func Parse(name string, data []byte) (events.Agent, []Warning, error) {
	return Defaults{}.Parse(name, data)
}

// Parse reads one agent definition as the function does, and gives it the defaults for what it does not say.
func (d Defaults) Parse(name string, data []byte) (events.Agent, []Warning, error) {
	name = strings.TrimSuffix(name, Ext)
	p := &parsing{file: name + Ext, defaults: d}
	agent := p.parse(name, data)
	warnings, err := p.found()
	if err != nil {
		return events.Agent{}, warnings, err
	}
	return agent, warnings, nil
}

// parsing collects what is found out about one file.
type parsing struct {
	file     string
	defaults Defaults
	errs     []*Error
	warnings []Warning
}

func (p *parsing) fail(e *Error) {
	if len(p.errs) < MaxErrors {
		e.File = p.file
		p.errs = append(p.errs, e)
	}
}

// failAt is fail about a value.
func (p *parsing) failAt(n *node, e Error) {
	e.Line, e.Path = n.line, n.path
	p.fail(&e)
}

func (p *parsing) failErr(err error) {
	if e, ok := errors.AsType[*Error](err); ok {
		p.fail(e)
		return
	}
	p.fail(&Error{Code: CodeFile, Message: err.Error()})
}

func (p *parsing) warn(w Warning) {
	w.File = p.file
	p.warnings = append(p.warnings, w)
}

// found is what was found out, in the order of the file.
func (p *parsing) found() ([]Warning, error) {
	sort.SliceStable(p.warnings, func(i, j int) bool { return p.warnings[i].Line < p.warnings[j].Line })
	slices.SortStableFunc(p.errs, func(a, b *Error) int { return cmp.Compare(a.Line, b.Line) })
	all := make([]error, len(p.errs))
	for i, e := range p.errs {
		all[i] = e
	}
	return p.warnings, errors.Join(all...)
}

func (p *parsing) parse(name string, data []byte) events.Agent {
	if !events.ValidID(name) {
		p.file = shown(name)
		p.fail(&Error{Code: CodeValue, Message: "the file's name is not the name of an agent",
			Expected: fmt.Sprintf("1 to %d characters of A-Z a-z 0-9 _ and -", events.MaxID), Hint: "rename the file"})
		return events.Agent{}
	}
	front, body, bodyLine, err := split(data)
	if err != nil {
		p.failErr(err)
		return events.Agent{}
	}
	root, err := readTree(strings.ReplaceAll(front, "\r\n", "\n"), 2)
	if err != nil {
		p.failErr(err)
		return events.Agent{}
	}
	word := p.normalise(root)
	p.walk(root, agentShape(), inForce)
	own, git := root.get("harness", "enabled"), root.child("git")
	p.defaults.under(root)
	if _, err := parseTemplate(body, bodyLine); err != nil {
		p.failErr(err)
	}
	agent := p.build(root, name)
	agent.Digest = events.HashOf(data)
	if agent.Runtime != nil { // the file says by itself what is started only together with that of the runtime
		agent.Digest = events.HashOf([]byte(agent.Digest + "\n" + agent.Runtime.Digest))
	}
	agent.Prompt = body
	agent.GitDefaults = git == nil && agent.Git != nil
	agent.Harness = harnessOf(own, word, root.get("harness", "enabled"))
	return agent
}

// split takes the frontmatter and the body apart. bodyLine is the line that the body begins at.
func split(data []byte) (front, body string, bodyLine int, err error) {
	if len(data) > MaxFile {
		return "", "", 0, &Error{Code: CodeLimit, Message: "the file is too large", Expected: fmt.Sprintf("at most %d bytes",
			MaxFile), Actual: fmt.Sprint(len(data))}
	}
	if !utf8.Valid(data) || strings.ContainsRune(string(data), 0) {
		return "", "", 0, &Error{Code: CodeFile, Message: "the file is not UTF-8 text"}
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	head, rest, more := strings.Cut(text, "\n")
	if !dashes(head) || !more {
		return "", "", 0, &Error{Code: CodeFront, Line: 1, Message: "the file does not begin with frontmatter",
			Hint: "begin it with a line of three dashes"}
	}
	line, at := 2, 0
	for at <= len(rest) {
		l, _, more := strings.Cut(rest[at:], "\n")
		if dashes(l) {
			front, body = rest[:at], rest[min(at+len(l)+1, len(rest)):]
			if len(front) > MaxFrontmatter {
				return "", "", 0, &Error{Code: CodeLimit, Line: line, Message: "the frontmatter is too large",
					Expected: fmt.Sprintf("at most %d bytes", MaxFrontmatter), Actual: fmt.Sprint(len(front))}
			}
			return front, body, line + 1, nil
		}
		if !more {
			break
		}
		at += len(l) + 1
		line++
	}
	return "", "", 0, &Error{Code: CodeFront, Line: 1, Message: "the frontmatter has no end",
		Hint: "end it with a line of three dashes"}
}

func dashes(line string) bool { return strings.TrimRight(line, " \t\r") == "---" }
