package agentfile

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/pkg/events"
)

// ErrClaude is wrapped by every error about an agent file of Claude Code that cannot be read.
var ErrClaude = errors.New("not an agent file of Claude Code")

// maxClaude is the most bytes of such a file.
const maxClaude = 1 << 20

// claudeTools are the tools of Claude Code that have one of ours for the same.
var claudeTools = map[string]string{"Read": "read", "Write": "write", "Edit": "edit", "MultiEdit": "edit",
	"Bash": "bash", "BashOutput": "bash_output", "KillShell": "kill_shell", "KillBash": "kill_shell", "Grep": "grep",
	"Glob": "glob", "LS": "glob"}

// claudeFile is the part of the frontmatter that means something here.
type claudeFile struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	Model       string `yaml:"model"`
	Tools       any    `yaml:"tools"`
}

// patterned is a tool with what it may be called with, such as Bash(git diff:*).
var patterned = pattern.New(`^([A-Za-z]+)\((.*)\)$`)

// FromClaude makes an agent file of one that was written for Claude Code: Markdown with name, description, tools and
// model in its frontmatter, and the system prompt below (ECO-8). model replaces its own, which may be a word that only
// that program understands. left says what was left out, in words. The agent may do no more than the file says: a tool
// with patterns may be called with these alone, and a file that names no tools gets those that only read.
func FromClaude(data []byte, name, model string) (agent string, file []byte, left []string, err error) {
	head, body, err := frontmatter(data)
	if err != nil {
		return "", nil, nil, err
	}
	c, extra, err := claudeHead(head)
	if err != nil {
		return "", nil, nil, err
	}
	if name == "" {
		name = c.Name
	}
	if err := events.CheckID("agent", name); err != nil {
		return "", nil, nil, err
	}
	if model, err = claudeModel(c.Model, model); err != nil {
		return "", nil, nil, err
	}
	for _, key := range extra {
		left = append(left, fmt.Sprintf("%s: has no equivalent", key))
	}
	tools, permissions, notes := claudeAllowed(c.Tools)
	left = append(left, notes...)
	var b strings.Builder
	fmt.Fprintf(&b, "---\nname: %s\ndescription: %s\nversion: 1\nmodel: %s\ntools: [%s]\n", strconv.Quote(name),
		strconv.Quote(strings.Join(strings.Fields(c.Description), " ")), strconv.Quote(model), strings.Join(tools, ", "))
	if len(permissions) > 0 {
		b.WriteString("permissions:\n")
		for _, tool := range slices.Sorted(maps.Keys(permissions)) {
			fmt.Fprintf(&b, "  %s:\n    \"*\": deny\n", tool)
			for _, p := range permissions[tool] {
				fmt.Fprintf(&b, "    %s: allow\n", strconv.Quote(p))
			}
		}
	}
	b.WriteString("harness:\n  enabled: true\n---\n")
	b.WriteString(strings.ReplaceAll(strings.TrimSpace(body), "{{", `\{{`)) // there are no templates in such files
	b.WriteString("\n\n{{role \"user\"}}\n{{userInput}}\n")
	file = []byte(b.String())
	_, warnings, err := Parse(name, file)
	for _, w := range warnings {
		left = append(left, w.String())
	}
	return name, file, left, err
}

// frontmatter takes a file apart.
func frontmatter(data []byte) (head []byte, body string, err error) {
	if len(data) > maxClaude {
		return nil, "", fmt.Errorf("%w: it has %d bytes, the limit is %d", ErrClaude, len(data), maxClaude)
	}
	text := strings.TrimPrefix(strings.ReplaceAll(string(data), "\r\n", "\n"), "\ufeff")
	rest, ok := strings.CutPrefix(text, "---\n")
	top, body, closed := strings.Cut(rest, "\n---\n")
	if !ok || !closed {
		return nil, "", fmt.Errorf("%w: it needs frontmatter between two lines of ---, with name and description", ErrClaude)
	}
	return []byte(top + "\n"), body, nil
}

// claudeHead reads the frontmatter. extra are keys that mean nothing here.
func claudeHead(head []byte) (c claudeFile, extra []string, err error) {
	all := map[string]any{}
	if err := yaml.NewDecoder(bytes.NewReader(head)).Decode(&all); err != nil {
		return c, nil, fmt.Errorf("%w: %w", ErrClaude, err)
	}
	if err := yaml.Unmarshal(head, &c); err != nil {
		return c, nil, fmt.Errorf("%w: %w", ErrClaude, err)
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains([]string{"name", "description", "model", "tools", "color"}, key) {
			extra = append(extra, key)
		}
	}
	return c, extra, nil
}

// claudeModel is the model in force: one that is asked for, or the file's own where it is a name that the provider
// knows.
func claudeModel(own, asked string) (string, error) {
	switch {
	case asked != "":
		return asked, nil
	case strings.HasPrefix(own, "claude-"):
		return "anthropic/" + own, nil
	case own == "" || own == "inherit":
		return "", errors.New("the file names no model: give one with --model provider/name")
	}
	return "", fmt.Errorf("the model %q is an alias of Claude Code: give a model with --model provider/name", own)
}

// claudeAllowed reads the tools: a list, or words between commas. A comma inside of brackets belongs to a pattern.
func claudeAllowed(v any) (tools []string, permissions map[string][]string, left []string) {
	names, given := claudeNames(v)
	if !given {
		return []string{"read", "grep", "glob"}, nil,
			[]string{"tools: the file names none, which Claude Code reads as all tools; this agent has only read, grep and glob until the file names more"}
	}
	permissions = map[string][]string{}
	free := map[string]bool{}
	for _, n := range names {
		name, pattern := n, ""
		if m := patterned.FindStringSubmatch(n); m != nil {
			name, pattern = m[1], m[2]
		}
		ours, ok := claudeTools[name]
		if !ok {
			left = append(left, fmt.Sprintf("tool %q: no equivalent tool", n))
			continue
		}
		if !slices.Contains(tools, ours) {
			tools = append(tools, ours)
		}
		if pattern == "" || pattern == "*" {
			free[ours] = true
			continue
		}
		if p, any := strings.CutSuffix(pattern, ":*"); any {
			pattern = p + " *"
			permissions[ours] = append(permissions[ours], p) // the command alone, too
		}
		permissions[ours] = append(permissions[ours], pattern)
	}
	for tool := range free {
		delete(permissions, tool)
	}
	return tools, permissions, left
}

func claudeNames(v any) (names []string, given bool) {
	switch t := v.(type) {
	case []any:
		for _, x := range t {
			names = append(names, strings.TrimSpace(fmt.Sprint(x)))
		}
		return names, true
	case string:
		depth, from := 0, 0
		for i, r := range t + "," {
			switch {
			case r == '(':
				depth++
			case r == ')':
				depth--
			case r == ',' && depth <= 0:
				if n := strings.TrimSpace(t[from:min(i, len(t))]); n != "" {
					names = append(names, n)
				}
				from = i + 1
			}
		}
		return names, len(names) > 0
	}
	return nil, false
}
