package scripted

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/pattern"
)

// Limits of a script.
const (
	maxScriptBytes = 1 << 20
	maxEntries     = 10_000
)

// ErrScript is wrapped by every error about a script's content.
var ErrScript = errors.New("bad script")

// script is the whole file: a list of entries, the first that matches answers.
type script struct {
	// Description is for people.
	Description string  `yaml:"description"`
	Turns       []entry `yaml:"turns"`
}

// entry is one answer and the questions it is for.
type entry struct {
	When when `yaml:"when"`

	// Text and Thinking may hold placeholders and are streamed in pieces of Chunk characters.
	Text     string      `yaml:"text"`
	Thinking string      `yaml:"thinking"`
	Calls    []call      `yaml:"calls"`
	Usage    *usageCount `yaml:"usage"`
	// Delay before the first piece.
	Delay duration `yaml:"delay"`
	Chunk int      `yaml:"chunk"`
	// Finish is "length" or "refusal"; left out, it follows from the calls.
	Finish string   `yaml:"finish"`
	Error  *failure `yaml:"error"`

	index int
}

type call struct {
	ID    string `yaml:"id"`
	Name  string `yaml:"name"`
	Input any    `yaml:"input"`

	// fixed is the input as JSON where it holds no blank.
	fixed json.RawMessage
}

type usageCount struct {
	Input  int `yaml:"input"`
	Output int `yaml:"output"`
	Cached int `yaml:"cached"`
}

// failure makes the entry an error instead of an answer; text and thinking before it are still streamed, so that a
// cut in the middle of a stream can be played.
type failure struct {
	Class      string   `yaml:"class"`
	Status     int      `yaml:"status"`
	RetryAfter duration `yaml:"retry_after"`
	Message    string   `yaml:"message"`
}

// duration is written as Go writes it: 200ms, 3s.
type duration time.Duration

// UnmarshalYAML reads a duration.
func (d *duration) UnmarshalYAML(decode func(any) error) error {
	var s string
	if err := decode(&s); err != nil {
		return err
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 {
		return fmt.Errorf("%q is not a duration (write it with a unit, such as 200ms or 3s)", s)
	}
	*d = duration(v)
	return nil
}

// Read reads the script called name from r.
func Read(name string, r io.Reader) (*Model, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxScriptBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read script %s: %w", name, err)
	}
	return Parse(name, b)
}

// Parse reads a script of at most 1 MiB and 10,000 entries. Errors wrap ErrScript and say where and what to do.
func Parse(name string, text []byte) (*Model, error) {
	if len(text) > maxScriptBytes {
		return nil, fmt.Errorf("%w %s: larger than %d bytes; split it", ErrScript, name, maxScriptBytes)
	}
	var s script
	if err := yaml.UnmarshalWithOptions(text, &s, yaml.Strict()); err != nil {
		return nil, decodeError(name, err)
	}
	if len(s.Turns) == 0 {
		return nil, fmt.Errorf("%w %s: no entries; write a list under the key turns", ErrScript, name)
	}
	if len(s.Turns) > maxEntries {
		return nil, fmt.Errorf("%w %s: %d entries, the limit is %d; use a range such as turn: {from: 1, to: 100}",
			ErrScript, name, len(s.Turns), maxEntries)
	}
	for i := range s.Turns {
		s.Turns[i].index = i
		if err := s.Turns[i].check(); err != nil {
			return nil, fmt.Errorf("%w %s: turns[%d]%s: %w", ErrScript, name, i, line(text, i), err)
		}
	}
	return &Model{name: name, entries: s.Turns}, nil
}

const keysHint = "an entry has when, text, thinking, calls, usage, delay, chunk, finish and error; " +
	"when has turn, attempt, step, agent, purpose, results, message and history"

func decodeError(name string, err error) error {
	hint := ""
	if e, ok := errors.AsType[*yaml.UnknownFieldError](err); ok {
		hint = "; " + keysHint
		if strings.Contains(e.Message, `"times"`) {
			hint = "; a script has no state and cannot count: match on turn or attempt instead"
		}
	}
	if e, ok := errors.AsType[yaml.Error](err); ok && e.GetToken() != nil && e.GetToken().Position != nil {
		return fmt.Errorf("%w %s: line %d: %s%s", ErrScript, name, e.GetToken().Position.Line, e.GetMessage(), hint)
	}
	return fmt.Errorf("%w %s: %w%s", ErrScript, name, err, hint)
}

// line finds where entry i stands, for an error message; it is empty where it cannot be told.
func line(text []byte, i int) string {
	path, err := yaml.PathString(fmt.Sprintf("$.turns[%d]", i))
	if err != nil {
		return ""
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return ""
	}
	node, err := path.FilterFile(file)
	if err != nil || node == nil || node.GetToken() == nil || node.GetToken().Position == nil {
		return ""
	}
	return fmt.Sprintf(" (line %d)", node.GetToken().Position.Line)
}

func (e *entry) check() error {
	if err := e.When.check(); err != nil {
		return err
	}
	if e.Text == "" && e.Thinking == "" && len(e.Calls) == 0 && e.Error == nil && e.Finish == "" {
		return errors.New("the entry is empty; give it text, thinking, calls, finish or error")
	}
	if e.Chunk < 0 {
		return fmt.Errorf("chunk %d; give a number of characters from 1", e.Chunk)
	}
	switch llm.Finish(e.Finish) {
	case "", llm.Length, llm.Refusal:
	default:
		return fmt.Errorf("finish %q; only length and refusal are allowed, otherwise leave it out", e.Finish)
	}
	if u := e.Usage; u != nil && (u.Input < 0 || u.Output < 0 || u.Cached < 0 || u.Cached > u.Input) {
		return errors.New("usage: counts are not negative, and cached is a part of input")
	}
	for _, text := range []string{e.Text, e.Thinking} {
		if err := checkPlaceholders(text); err != nil {
			return err
		}
	}
	if err := e.checkCalls(); err != nil {
		return err
	}
	return e.checkError()
}

var toolName = pattern.New(`^[A-Za-z0-9_.:-]{1,128}$`)

func (e *entry) checkCalls() error {
	seen := map[string]bool{}
	for i := range e.Calls {
		c := &e.Calls[i]
		if !toolName.MatchString(c.Name) {
			return fmt.Errorf("calls[%d]: name %q is not a tool name", i, c.Name)
		}
		if c.ID != "" && seen[c.ID] {
			return fmt.Errorf("calls[%d]: id %q is used twice; leave ids out to have them generated", i, c.ID)
		}
		seen[c.ID] = true
		if err := c.prepare(); err != nil {
			return fmt.Errorf("calls[%d]: input: %w", i, err)
		}
	}
	return nil
}

func (e *entry) checkError() error {
	if e.Error == nil {
		return nil
	}
	if len(e.Calls) > 0 || e.Usage != nil || e.Finish != "" {
		return errors.New("an entry with error has no calls, usage or finish: the answer never arrives")
	}
	switch llm.Class(e.Error.Class) {
	case llm.Transient, llm.RateLimit, llm.Auth, llm.Invalid, llm.TooLong:
		return nil
	}
	return fmt.Errorf("error class %q; use one of %s, %s, %s, %s, %s", e.Error.Class,
		llm.Transient, llm.RateLimit, llm.Auth, llm.Invalid, llm.TooLong)
}
