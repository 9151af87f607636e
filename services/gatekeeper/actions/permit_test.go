package actions

import (
	"encoding/json"
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/core/guard"
)

const writer = `---
model: scripted/x
tools: [read, edit, apply_patch, bash]
permissions:
  edit: {"*.md": allow, "notes/{a,b},c/*": ask, "secret.md": deny, "*": deny}
  bash: {"go test *": allow, "git diff": allow, "*": deny}
---
Write.
`

// TestEditCoversPatches goes the way of a call: an agent's file, the arguments of a tool, the verdict.
func TestEditCoversPatches(t *testing.T) {
	t.Parallel()
	a, _, err := agentfile.Parse("writer.prompt", []byte(writer))
	if err != nil {
		t.Fatal(err)
	}
	set, err := guard.Build(a.Guards)
	if err != nil {
		t.Fatal(err)
	}
	judge := func(t *testing.T, tool string, args map[string]string, want string) {
		t.Helper()
		raw, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		if v := set.Judge(Of(tool, raw)); v.Action != want {
			t.Errorf("%s %s: got %+v, want %s", tool, raw, v, want)
		}
	}
	add := func(path string) string {
		return "*** Begin Patch\n*** Add File: " + path + "\n+x\n*** End Patch"
	}
	t.Run("GUARD-12 SAFE-12 what edit may not touch, a patch may not: changed, made, deleted, moved, or beside a file that it may", func(t *testing.T) {
		t.Parallel()
		for patch, want := range map[string]string{
			add("main.go"):        guard.Deny,
			add("readme.md"):      guard.Allow,
			add("secret.md"):      guard.Deny,
			add("./x/../main.go"): guard.Deny,
			add("notes/b,c/1"):    guard.Ask,
			"--- a/main.go\n+++ b/main.go\n@@ -1 +1 @@\n-x\n+y\n":                                                      guard.Deny,
			"*** Begin Patch\n*** Delete File: main.go\n*** End Patch":                                                 guard.Deny,
			"*** Begin Patch\n*** Update File: a.md\n*** Move to: main.go\n-x\n+y\n*** End Patch":                      guard.Deny,
			"*** Begin Patch\n*** Update File: a.md\n-x\n+y\n*** Update File: b.md\n-x\n+y\n*** End Patch":             guard.Allow,
			"*** Begin Patch\n*** Update File: a.md\n-x\n+y\n*** Update File: main.go\n-x\n+y\n*** End Patch":          guard.Deny,
			"*** Begin Patch\n*** Update File: a.md\n-x\n+y\n*** Add File: notes/a,c/x\n+y\n*** End Patch":             guard.Ask,
			"*** Begin Patch\n*** Update File: a.md\n-x\n+y\n*** Update File: secret.md\n-x\n+y\n*** End Patch":        guard.Deny,
			"*** Begin Patch\n*** Update File: docs/deep/a.md\n-x\n+y\n*** Update File: b.md\n-x\n+y\n*** End Patch\n": guard.Allow,
		} {
			judge(t, "apply_patch", map[string]string{"patch": patch}, want)
		}
	})
	t.Run("GUARD-13 a pattern that stands for everything leaves to the others what they name", func(t *testing.T) {
		t.Parallel()
		for path, want := range map[string]string{"a.md": guard.Allow, "main.go": guard.Deny, "secret.md": guard.Deny, "notes/a,c/x": guard.Ask, "x/../../b.md": guard.Deny} {
			judge(t, "edit", map[string]string{"path": path}, want)
		}
		for command, want := range map[string]string{"go test ./...": guard.Allow, "git diff": guard.Allow, "git diff && ls": guard.Deny,
			"go test ./... > out": guard.Deny, "go $X ./...": guard.Deny, "ls": guard.Deny, "": guard.Deny} {
			judge(t, "bash", map[string]string{"command": command}, want)
		}
	})
	t.Run("GUARD-12 a file can say what patches may change by the words edit and write", func(t *testing.T) {
		t.Parallel()
		a, _, err := agentfile.Parse("x.prompt", []byte("---\nmodel: scripted/x\ntools: [apply_patch]\npermissions: {write: deny}\n---\nGo.\n"))
		if err != nil {
			t.Fatal(err)
		}
		set, err := guard.Build(a.Guards)
		if err != nil {
			t.Fatal(err)
		}
		if v := set.Judge(Of("apply_patch", json.RawMessage(`{"patch":"x"}`))); v.Action != guard.Deny {
			t.Errorf("%+v", v)
		}
	})
}
