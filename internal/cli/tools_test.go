package cli_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/mcp/mcptest"
	"github.com/inspan/inspan/internal/runtime/runtimetest"
)

func TestMain(m *testing.M) {
	switch {
	case runtimetest.Main():
	case os.Getenv(cliVar) != "":
		program()
	case !mcptest.Main():
		// Neither the files of whoever runs the tests nor a copy of this repository.
		state, err := os.MkdirTemp("", "inspan-cli-test-")
		if err := errors.Join(err, os.Setenv("INSPAN_CONFIG", "none"), os.Setenv("INSPAN_EMPTY", "true"), os.Setenv("XDG_STATE_HOME", state)); err != nil {
			panic(err)
		}
		m.Run()
		_ = os.RemoveAll(state) // in the system's place for temporary files
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(t)
	file := filepath.Join(d.dir, "agents", "served.prompt")
	serve := func(kind string) {
		t.Helper()
		text := "---\nmodel: scripted/served\nharness: agentic\ntools: [read, nonsense, \"mcp:test/e*\"]\nsandbox: {mode: host}\nmcp:\n  test:\n    command: [" + self + "]\n    env: {" + mcptest.Var + ": " + kind + "}\n    effects: {echo: read}\n---\nWork.\n"
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("TOOL-19 CLI-7 the built-in tools are listed with their effect classes", func(t *testing.T) {
		d.want(0, []string{"bash", "once", "read", "idempotent", "reconcilable", "built-in"}, "tools")
	})
	serve(mcptest.Good)
	t.Run("ECO-3 tools of a server are disabled until they are pinned", func(t *testing.T) {
		d.want(0, []string{"not pinned: inspan tools --agent FILE --pin", "no built-in tool has this name"}, "tools", "--agent", file)
	})
	t.Run("ECO-3 pinned tools are listed with effect, source, digest, and what is left out with the reason", func(t *testing.T) {
		d.want(0, []string{"mcp__test__echo", "mcp__test__env", "not named under tools", "U+E0041"}, "tools", "--agent", file, "--pin")
		var got struct {
			Tools []struct{ Name, Effect, Source, Digest, Disabled string }
		}
		if err := json.Unmarshal([]byte(d.do("tools", "--agent", file, "--json").out), &got); err != nil {
			t.Fatal(err)
		}
		seen := map[string]string{}
		for _, r := range got.Tools {
			if r.Source == "test" && r.Disabled == "" && len(r.Digest) != 64 {
				t.Errorf("%+v", r)
			}
			seen[r.Name] = r.Effect
		}
		if seen["mcp__test__echo"] != "read" || seen["mcp__test__env"] != "once" || seen["read"] != "read" {
			t.Errorf("%v", seen)
		}
		d.want(0, []string{"mcp__test__echo"}, "tools", "--agent", file, "--check")
	})
	serve(mcptest.Changed)
	t.Run("ECO-3 a tool that changed is found, and allowed by pinning it again", func(t *testing.T) {
		s := d.want(1, []string{"changed since it was pinned", "~ changed  test/echo"}, "tools", "--agent", file, "--check")
		if !strings.Contains(s.err, "--pin") {
			t.Errorf("no hint: %s", s.err)
		}
		d.want(0, []string{"~ changed  test/echo"}, "tools", "--agent", file, "--pin")
		d.want(0, nil, "tools", "--agent", file, "--check")
	})
	serve(mcptest.Crash)
	t.Run("ECO-3 a server that does not work is told with what it said, made harmless, and the pins stay", func(t *testing.T) {
		before, err := os.ReadFile(strings.TrimSuffix(file, ".prompt") + ".mcp.json")
		if err != nil {
			t.Fatal(err)
		}
		s := d.want(1, nil, "tools", "--agent", file, "--pin")
		if !strings.Contains(s.err, "server test") || !strings.Contains(s.err, "no database") || strings.Contains(s.err, "\x1b") {
			t.Errorf("%q", s.err)
		}
		if after, err := os.ReadFile(strings.TrimSuffix(file, ".prompt") + ".mcp.json"); err != nil || string(after) != string(before) {
			t.Errorf("the pins changed: %v", err)
		}
	})
	t.Run("CLI-8 wrong command lines say what is missing", func(t *testing.T) {
		for _, args := range [][]string{{"tools", "--pin"}, {"tools", "--agent", file, "--pin", "--check"}, {"tools", "--agent", "nowhere.prompt"}} {
			if s := d.do(args...); s.code != 2 || s.err == "" {
				t.Errorf("%v: %d %s", args, s.code, s.err)
			}
		}
	})
}
