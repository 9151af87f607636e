package agentfile

import (
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/pattern"
)

type role int

const (
	system role = iota
	user
)

// piece of a template: either text or the name of a value.
type piece struct {
	role role
	text string
	// name of a value; empty for text.
	name string
	line int
}

var (
	pathRule = pattern.New(`^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*$`)
	// The ends of a construct; each may trim the space after it.
	plainEnd   = pattern.New(`~?\}\}`)
	tripleEnd  = pattern.New(`\}~?\}\}`)
	commentEnd = pattern.New(`--~?\}\}`)
	roleRule   = pattern.New(`^role\s+(?:"([^"]*)"|'([^']*)')$`)
)

const (
	wordTask    = "userInput"
	wordHistory = "history"
	supported   = `the template of an agent may contain {{role "system"}}, {{role "user"}}, {{userInput}}, {{history}}, {{x}}, {{input.x}} and comments`
)

// parseTemplate reads a body. first is the line of the file that it begins at; errors are *Error. Its work is
// linear in the body.
func parseTemplate(body string, first int) ([]piece, error) {
	t := templateParser{line: first}
	for body != "" {
		open := strings.Index(body, "{{")
		if open < 0 {
			t.addText(body)
			break
		}
		if open > 0 && body[open-1] == '\\' {
			if open > 1 && body[open-2] == '\\' { // "\\{{x}}" is a backslash and a value
				t.addText(body[:open-1])
				body = body[open:]
				continue
			}
			t.addText(body[:open-1])
			t.addText("{{")
			body = body[open+2:]
			continue
		}
		t.addText(body[:open])
		inner, rest, err := t.mustache(body[open:])
		if err != nil {
			return nil, err
		}
		if err := t.expression(inner); err != nil {
			return nil, err
		}
		t.line += strings.Count(body[open:len(body)-len(rest)], "\n")
		body = rest
	}
	return t.pieces, nil
}

type templateParser struct {
	pieces []piece
	role   role
	line   int
	// trim the space that follows: the construct before it ended in "~}}".
	trim bool
}

func (t *templateParser) addText(s string) {
	lines := strings.Count(s, "\n")
	if t.trim {
		s = strings.TrimLeft(s, " \t\r\n")
	}
	if s != "" {
		t.trim = false
		t.pieces = append(t.pieces, piece{role: t.role, text: s, line: t.line})
	}
	t.line += lines
}

func (t *templateParser) refuse(message, got string) *Error {
	return &Error{Code: CodeTemplate, Line: t.line, Message: message, Actual: shown(got), Hint: supported}
}

// mustache takes one construct off the front of s, which begins with "{{", and returns what is inside it.
func (t *templateParser) mustache(s string) (inner, rest string, err error) {
	body := s[2:]
	before := strings.HasPrefix(body, "~")
	body = strings.TrimPrefix(body, "~")
	if before {
		t.trimBefore()
	}
	end := plainEnd
	switch {
	case strings.HasPrefix(body, "{{"):
		return "", "", t.refuse("raw blocks are not supported", s)
	case strings.HasPrefix(body, "!--"):
		return t.comment(s)
	case strings.HasPrefix(body, "{"):
		body, end = body[1:], tripleEnd
	}
	at := end.FindStringIndex(body)
	if at == nil {
		return "", "", t.refuse("a construct has no end", s)
	}
	t.trim = strings.Contains(body[at[0]:at[1]], "~")
	return body[:at[0]], body[at[1]:], nil
}

// comment takes a long comment, which may hold "}}", off the front of s.
func (t *templateParser) comment(s string) (inner, rest string, err error) {
	at := commentEnd.FindStringIndex(s)
	if at == nil {
		return "", "", t.refuse("a comment has no end", s)
	}
	t.trim = s[at[0]+2] == '~'
	return "!", s[at[1]:], nil
}

// trimBefore takes the space off the end of the text so far.
func (t *templateParser) trimBefore() {
	for last := len(t.pieces) - 1; last >= 0; last-- {
		p := &t.pieces[last]
		if p.name != "" || p.role != t.role {
			return
		}
		if p.text = strings.TrimRight(p.text, " \t\r\n"); p.text != "" {
			return
		}
		t.pieces = t.pieces[:last]
	}
}

// expression acts on what one construct holds.
func (t *templateParser) expression(inner string) error {
	word := strings.TrimSpace(inner)
	switch {
	case strings.HasPrefix(word, "!"), word == wordHistory, word == wordHistory+"()":
		return nil
	case word == "":
		return t.refuse("a construct is empty", "{{"+inner+"}}")
	case strings.HasPrefix(word, "role ") || strings.HasPrefix(word, "role\t"):
		return t.turn(word)
	case !pathRule.MatchString(word) || word == "else" || word == "role" || word == "this":
		return t.refuse("the construct is not supported", fmt.Sprintf("{{%s}}", word))
	}
	t.pieces = append(t.pieces, piece{role: t.role, name: word, line: t.line})
	return nil
}

func (t *templateParser) turn(word string) error {
	m := roleRule.FindStringSubmatch(word)
	if m == nil {
		return t.refuse("the role has the wrong syntax", "{{"+word+"}}")
	}
	switch m[1] + m[2] {
	case "system":
		t.role = system
	case "user":
		t.role = user
	default:
		return t.refuse("only the roles system and user are allowed; the run has the rest of the conversation",
			"{{"+word+"}}")
	}
	// A part that goes on after another role is a paragraph of its own.
	if n := len(t.pieces); n > 0 {
		t.pieces = append(t.pieces, piece{role: t.role, text: "\n\n", line: t.line})
	}
	return nil
}
