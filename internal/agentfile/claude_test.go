package agentfile_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/core/guard"
)

const reviewer = `---
name: code-reviewer
description: Reviews changes.
  Use it before a merge.
tools: Read, Grep, Bash(git diff:*), Bash(go test ./...), WebFetch, mcp__x__y
model: sonnet
color: blue
hooks: {}
---

You review code.

Say "{{x}}" as it stands.
`

func TestFromClaude(t *testing.T) {
	t.Parallel()
	t.Run("ECO-8 an agent file of Claude Code becomes one of ours, and may do no more than it said", func(t *testing.T) {
		t.Parallel()
		name, file, left, err := agentfile.FromClaude([]byte(reviewer), "", "scripted/x")
		if err != nil {
			t.Fatal(err)
		}
		a, _, err := agentfile.Parse(name, file)
		if err != nil {
			t.Fatal(err)
		}
		if a.Name != "code-reviewer" || a.Model != "scripted/x" || a.Description != "Reviews changes. Use it before a merge." || !slices.Equal(a.Tools, []string{"read", "grep", "bash"}) {
			t.Errorf("%+v", a)
		}
		r, err := agentfile.Render(a, agentfile.RenderInput{Task: "look"})
		if err != nil || r.System != "You review code.\n\nSay \"{{x}}\" as it stands." || r.User != "look" {
			t.Errorf("%+v %v", r, err)
		}
		for _, want := range []string{`"WebFetch"`, `"mcp__x__y"`, "hooks"} {
			if !strings.Contains(strings.Join(left, "\n"), want) {
				t.Errorf("it does not say that %s was left out: %q", want, left)
			}
		}
		for _, want := range []string{`"*": deny`, `"git diff": allow`, `"git diff *": allow`, `"go test ./...": allow`} {
			if !strings.Contains(string(file), want) {
				t.Errorf("%s is missing:\n%s", want, file)
			}
		}
		set, err := guard.Build(a.Guards)
		if err != nil {
			t.Fatal(err)
		}
		for command, want := range map[string]string{"git diff": guard.Allow, "git diff --stat": guard.Allow, "go test ./...": guard.Allow, "git log": guard.Deny, "go test ./x": guard.Deny} {
			if v := set.Judge(guard.Action{Tool: "bash", Commands: [][]string{strings.Fields(command)}}); v.Action != want {
				t.Errorf("%s: %+v, want %s", command, v, want)
			}
		}
	})
	t.Run("ECO-8 a tool without a pattern is free, a file without tools may only read", func(t *testing.T) {
		t.Parallel()
		_, file, _, err := agentfile.FromClaude([]byte("---\nname: a\ntools: [Bash, \"Bash(git:*)\", Edit, MultiEdit]\nmodel: claude-sonnet-4-20250514\n---\nGo.\n"), "b", "")
		if err != nil || strings.Contains(string(file), "permissions") || !strings.Contains(string(file), "tools: [bash, edit]") || !strings.Contains(string(file), `model: "anthropic/claude-sonnet-4-20250514"`) || !strings.Contains(string(file), `name: "b"`) {
			t.Errorf("%v\n%s", err, file)
		}
		_, file, left, err := agentfile.FromClaude([]byte("---\nname: a\nmodel: inherit\n---\nGo.\n"), "", "scripted/x")
		if err != nil || !strings.Contains(string(file), "tools: [read, grep, glob]") || len(left) == 0 {
			t.Errorf("%v %q\n%s", err, left, file)
		}
	})
	t.Run("ECO-8 what cannot be taken over is told", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]string{
			"no frontmatter":                                      "frontmatter",
			"---\nname: [\n---\nx":                                "not an agent file",
			"---\nname: a b\nmodel: claude-x\n---\nx":             "agent",
			"---\nname: a\n---\nx":                                "--model",
			"---\nname: a\nmodel: opus\n---\nx":                   "--model",
			"---\nname: a\nmodel: \"claude-x\\nevil: 1\"\n---\nx": "model",
			strings.Repeat("x", 1<<20+1):                          "limit",
		} {
			if _, _, _, err := agentfile.FromClaude([]byte(text), "", ""); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.40q: %v, want %q", text, err, want)
			}
		}
		if _, _, _, err := agentfile.FromClaude([]byte("x"), "", ""); !errors.Is(err, agentfile.ErrClaude) {
			t.Error(err)
		}
	})
}
