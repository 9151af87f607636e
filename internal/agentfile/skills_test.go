package agentfile_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
)

// folder writes files below a new folder; a name that ends in "/" is a folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const withSkills = "---\nmodel: scripted/x\nharness: agentic\ntools: [read]\nskills: {sources: [skills/]}\nmemory: {sources: [AGENTS.md, docs/house.md]}\n---\nWork.\n"

func TestSkills(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a.prompt": withSkills, "AGENTS.md": "Use tabs.\r\n", "docs/house.md": "Be brief.",
		"skills/release/SKILL.md": "---\nname: release\ndescription: How to make\n  a release\nlicense: MIT\n---\n\nTag, then push.\n",
		"skills/review/SKILL.md":  "---\nname: review\ndescription: How to review\n---\nRead all of it.\n", "skills/README.md": "no skill"}
	t.Run("ECO-8 AGENTS.md and SKILL.md beside an agent's file are pinned with it, and its digest covers them", func(t *testing.T) {
		t.Parallel()
		all, warnings, err := agentfile.LoadDir(folder(t, files))
		if err != nil || len(warnings) > 0 {
			t.Fatalf("%v, %v", err, warnings)
		}
		a := all["a"]
		if len(a.Memory) != 2 || a.Memory[0].Text != "Use tabs.\n" || a.Memory[1].Name != "docs/house.md" {
			t.Errorf("memory %+v", a.Memory)
		}
		if len(a.Skills) != 2 || a.Skills[0].Name != "release" || a.Skills[0].Description != "How to make a release" || a.Skills[0].Text != "Tag, then push." {
			t.Errorf("skills %+v", a.Skills)
		}
		if !slices.Equal(a.Tools, []string{"read", "skill"}) {
			t.Errorf("tools %v", a.Tools)
		}
		other := map[string]string{}
		for name, text := range files {
			other[name] = text
		}
		other["skills/review/SKILL.md"] += "And run it.\n"
		changed, _, err := agentfile.LoadDir(folder(t, other))
		if err != nil || changed["a"].Digest == a.Digest {
			t.Errorf("a changed skill left the digest as it was: %v", err)
		}
	})
	t.Run("ECO-8 an AGENTS.md that is not there is no error: that of the workspace may be meant", func(t *testing.T) {
		t.Parallel()
		all, warnings, err := agentfile.LoadDir(folder(t, map[string]string{"a.prompt": "---\nmodel: scripted/x\nharness: agentic\nmemory: {sources: [AGENTS.md], workspace: false}\n---\nWork.\n"}))
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0].Hint, "workspace") || len(all["a"].Memory) > 0 || !all["a"].NoWorkspaceMemory {
			t.Errorf("%v, %v, %+v", err, warnings, all["a"])
		}
	})
	for name, c := range map[string]struct{ file, text, want string }{
		"its name":                {"skills/release/SKILL.md", "---\ndescription: x\n---\n", "not the name of a skill"},
		"has no description":      {"skills/release/SKILL.md", "---\nname: release\n---\n", "needs a description"},
		"has no frontmatter":      {"skills/release/SKILL.md", "just text", "does not begin with frontmatter"},
		"has the name of another": {"skills/release/SKILL.md", "---\nname: review\ndescription: x\n---\n", "two skills"},
		"is too large":            {"skills/release/SKILL.md", strings.Repeat("x", 33<<10), "too large"},
		"is no text":              {"skills/release/SKILL.md", "---\nname: x\x00\n", "not UTF-8 text"},
	} {
		t.Run("ECO-8 a skill that "+name+" is refused with its reason", func(t *testing.T) {
			t.Parallel()
			bad := map[string]string{}
			for n, text := range files {
				bad[n] = text
			}
			bad[c.file] = c.text
			if _, _, err := agentfile.LoadDir(folder(t, bad)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	t.Run("ECO-8 nothing outside of the agents' folder can be named", func(t *testing.T) {
		t.Parallel()
		for _, source := range []string{"memory: {sources: [../secret.md]}", "memory: {sources: [/etc/hostname]}", "skills: {sources: [../]}"} {
			all, warnings, err := agentfile.LoadDir(folder(t, map[string]string{"a.prompt": "---\nmodel: scripted/x\nharness: agentic\n" + source + "\n---\nWork.\n"}))
			if len(all["a"].Memory)+len(all["a"].Skills) > 0 || err == nil && len(warnings) == 0 {
				t.Errorf("%s: %+v, %v", source, all["a"], err)
			}
		}
	})
}
