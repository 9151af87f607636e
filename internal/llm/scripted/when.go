package scripted

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/llm"
)

// when holds the conditions of an entry; those left out hold always.
type when struct {
	// Turn within the step and Attempt of the turn, both from 1: a number or a range.
	Turn    span `yaml:"turn"`
	Attempt span `yaml:"attempt"`
	// Step and Agent are names; * stands for any characters.
	Step  string `yaml:"step"`
	Agent string `yaml:"agent"`
	// Purpose is "turn", "plan" or "compaction".
	Purpose string `yaml:"purpose"`
	// Results holds where one result of the last tool message fulfils all of it.
	Results *resultsCondition `yaml:"results"`
	// Message looks at the last user message.
	Message *textCondition `yaml:"message"`
	// History holds where one message of a user or of the model before the last user message fulfils it.
	History *textCondition `yaml:"history"`
}

// span is a range of counting numbers, both ends in it. The zero span holds always.
type span struct {
	From int `yaml:"from"`
	// To of zero has no end.
	To int `yaml:"to"`
}

type bounds span

// UnmarshalYAML reads a number, or a mapping with from and to.
func (s *span) UnmarshalYAML(decode func(any) error) error {
	var n int
	if decode(&n) == nil {
		if n < 1 {
			return fmt.Errorf("%d is not a positive count", n)
		}
		*s = span{From: n, To: n}
		return nil
	}
	var b bounds
	if err := decode(&b); err != nil {
		return err
	}
	if b.From == 0 {
		b.From = 1
	}
	if b.From < 1 || b.To < 0 || b.To != 0 && b.To < b.From {
		return fmt.Errorf("range from %d to %d is empty; from is at least 1, to is at least from", b.From, b.To)
	}
	*s = span(b)
	return nil
}

func (s span) holds(n int) bool {
	return s == span{} || n >= s.From && (s.To == 0 || n <= s.To)
}

type textCondition struct {
	Contains string `yaml:"contains"`
	// Matches is a regular expression of Go's syntax.
	Matches string `yaml:"matches"`

	pattern *regexp.Regexp
}

func (c *textCondition) check() error {
	if c.Contains == "" && c.Matches == "" {
		return errors.New("give contains or matches")
	}
	return c.compile()
}

func (c *textCondition) compile() (err error) {
	if c.Matches != "" {
		c.pattern, err = regexp.Compile(c.Matches)
	}
	return err
}

func (c *textCondition) holds(text string) bool {
	return strings.Contains(text, c.Contains) && (c.pattern == nil || c.pattern.MatchString(text))
}

type resultsCondition struct {
	Text textCondition `yaml:",inline"`
	// Tool that gave the result.
	Tool string `yaml:"tool"`
	// Failed asks for a failed result, or for one that is not.
	Failed *bool `yaml:"failed"`
	// Image asks for a result with an image of that media type; * stands for any characters.
	Image string `yaml:"image"`
}

func (c *resultsCondition) check() error {
	if c.Text.Contains == "" && c.Text.Matches == "" && c.Tool == "" && c.Failed == nil && c.Image == "" {
		return errors.New("give contains, matches, tool, failed or image")
	}
	if _, err := path.Match(c.Image, ""); err != nil {
		return fmt.Errorf("image: pattern %q: %w", c.Image, err)
	}
	return c.Text.compile()
}

func (c *resultsCondition) holds(results []llm.Result) bool {
	for _, r := range results {
		if c.Text.holds(r.Output) && (c.Tool == "" || c.Tool == r.Name) && (c.Failed == nil || *c.Failed == r.Failed) &&
			c.sees(r) {
			return true
		}
	}
	return false
}

func (c *resultsCondition) sees(r llm.Result) bool {
	return c.Image == "" || slices.ContainsFunc(r.Images, func(i llm.Image) bool { return named(c.Image, i.MediaType) })
}

func (w *when) check() error {
	switch w.Purpose {
	case "", "turn", "plan", "compaction":
	default:
		return fmt.Errorf("when.purpose %q; it is turn, plan or compaction", w.Purpose)
	}
	for _, name := range []string{w.Step, w.Agent} {
		if _, err := path.Match(name, ""); err != nil {
			return fmt.Errorf("when: pattern %q: %w", name, err)
		}
	}
	if w.Results != nil {
		if err := w.Results.check(); err != nil {
			return fmt.Errorf("when.results: %w", err)
		}
	}
	if w.Message != nil {
		if err := w.Message.check(); err != nil {
			return fmt.Errorf("when.message: %w", err)
		}
	}
	if w.History != nil {
		if err := w.History.check(); err != nil {
			return fmt.Errorf("when.history: %w", err)
		}
	}
	return nil
}

func (w *when) holds(req llm.Request) bool {
	m := req.Meta
	return w.Turn.holds(m.Turn) && w.Attempt.holds(attempt(m)) &&
		named(w.Step, m.Step) && named(w.Agent, m.Agent) && (w.Purpose == "" || w.Purpose == m.Purpose) &&
		(w.Results == nil || w.Results.holds(lastResults(req.Messages))) &&
		(w.Message == nil || w.Message.holds(lastUser(req.Messages))) &&
		(w.History == nil || slices.ContainsFunc(earlier(req.Messages),
			func(m llm.Message) bool { return w.History.holds(m.Text) }))
}

// earlier are the messages before the last user message.
func earlier(messages []llm.Message) []llm.Message {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == llm.User {
			return messages[:i]
		}
	}
	return nil
}

func named(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

func attempt(m llm.Meta) int { return max(m.Attempt, 1) }

// lastResults are the results of the last tool message, also where a user message came after it.
func lastResults(messages []llm.Message) []llm.Result {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == llm.ToolResults {
			return messages[i].Results
		}
	}
	return nil
}

func lastUser(messages []llm.Message) string {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == llm.User {
			return messages[i].Text
		}
	}
	return ""
}

// briefChars is how much of each result an error message shows, briefResults of how many.
const (
	briefChars   = 120
	briefResults = 4
)

// brief shows results shortened, for an error message.
func brief(results []llm.Result) string {
	if len(results) == 0 {
		return "none"
	}
	var parts []string
	for i, r := range results {
		if i == briefResults {
			parts = append(parts, fmt.Sprintf("and %d more", len(results)-i))
			break
		}
		text, rest := cut(r.Output, briefChars)
		if rest != "" {
			text += "..."
		}
		parts = append(parts, fmt.Sprintf("%s: %q", r.Name, text))
	}
	return strings.Join(parts, ", ")
}
