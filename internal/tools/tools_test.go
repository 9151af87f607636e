package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/tools"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

func TestBuiltin(t *testing.T) {
	t.Parallel()
	want := map[string]tool.Effect{"read": tool.Read, "write": tool.Idempotent, "edit": tool.Reconcilable, "bash": tool.Once, "glob": tool.Read,
		"grep": tool.Read, "git_status": tool.Read, "git_diff": tool.Read, "git_log": tool.Read, "skill": tool.Read, "secret_scan": tool.Read, "apply_patch": tool.Reconcilable, "artifact_save": tool.Idempotent, "web_fetch": tool.Read, "screenshot": tool.Idempotent, "bash_output": tool.Read, "kill_shell": tool.Idempotent,
		"git_prepare": tool.Idempotent, "git_branch": tool.Idempotent, "git_commit": tool.Idempotent, "git_merge": tool.Idempotent, "git_push": tool.Reconcilable, "git_publish": tool.Idempotent, "git_review": tool.Reconcilable, "git_remove": tool.Idempotent,
		"delegate": tool.Idempotent, "delegate_result": tool.Read,
		"mail_send": tool.Idempotent, "mail_read": tool.Idempotent, "who": tool.Read, "handoff": tool.Idempotent, "work_current": tool.Read, "deliver": tool.Idempotent}
	t.Run("TOOL-10 TOOL-11 TOOL-12 every built-in tool is there with nothing else present", func(t *testing.T) {
		t.Parallel()
		r, err := tool.NewRegistry(tools.Builtin()...)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(r.Names()); got != len(want) {
			t.Errorf("%d tools, want %d", got, len(want))
		}
		for name, effect := range want {
			tl, ok := r.Get(name)
			if !ok {
				t.Errorf("%s is missing", name)
				continue
			}
			s := tl.Spec()
			if s.EffectOf() != effect {
				t.Errorf("%s has effect %s, want %s", name, s.EffectOf(), effect)
			}
			if len(s.Description) < 40 || !utf8.ValidString(s.Description) {
				t.Errorf("%s is described by %q", name, s.Description)
			}
			var schema struct {
				Type       string
				Closed     *bool `json:"additionalProperties"`
				Required   []string
				Properties map[string]struct{ Type string }
			}
			if err := json.Unmarshal(s.Input, &schema); err != nil || schema.Type != "object" || schema.Closed == nil || *schema.Closed {
				t.Errorf("schema of %s is not a closed object (%v): %s", name, err, s.Input)
			}
			for _, p := range schema.Required {
				if _, ok := schema.Properties[p]; !ok {
					t.Errorf("%s requires %q, which it does not have", name, p)
				}
			}
			if _, verifies := tl.(tool.Verifier); verifies != (effect == tool.Reconcilable) {
				t.Errorf("%s: verifier %v with effect %s", name, verifies, effect)
			}
		}
	})
	t.Run("ID-13 what operators do with agents is no tool: an agent has communication, navigation and delivery", func(t *testing.T) {
		t.Parallel()
		operators := slices.Concat(mailbox.Actions(), []string{"approve", "resume", "agent", "sandbox", "tier", "workspace", "session", "identity"})
		r, err := tool.NewRegistry(tools.Builtin()...)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range r.Names() {
			verb := name[strings.LastIndexByte(name, '_')+1:]
			if name != events.ToolHandoff && name != events.ToolMailSend && slices.Contains(operators, verb) {
				t.Errorf("the tool %s is an action of operators", name)
			}
		}
		for _, name := range []string{events.ToolMailSend, events.ToolMailRead, events.ToolWho, events.ToolWorkCurrent, events.ToolHandoff, "git_review"} {
			if _, ok := r.Get(name); !ok {
				t.Errorf("%s is missing", name)
			}
		}
	})
	t.Run("TOOL-12 a tool of somebody else cannot take a built-in name", func(t *testing.T) {
		t.Parallel()
		if _, err := tool.NewRegistry(append(tools.Builtin(), tools.Builtin()[0])...); err == nil {
			t.Error("accepted")
		}
	})
	t.Run("TOOL-6 nothing begins after ctx ended", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := b.try(ctx, "write", args{"path": "a", "content": "x"}); !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v", err)
		}
		if _, err := os.Stat(filepath.Join(b.dir, "a")); !errors.Is(err, os.ErrNotExist) {
			t.Error("the file was written")
		}
	})
}

// TestOutside proves that no tool leaves the workspace, whatever a path looks like.
func TestOutside(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	outside := filepath.Join(filepath.Dir(b.dir), "secret.txt")
	if err := os.WriteFile(outside, []byte("the secret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"link.txt": outside, "up": "..", "abs": filepath.Dir(b.dir)} {
		if err := os.Symlink(target, filepath.Join(b.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	b.put("sub/x.txt", "x\n")
	for _, path := range []string{"../secret.txt", outside, "link.txt", "up/secret.txt", "abs/secret.txt", "sub/../../secret.txt", "./../secret.txt"} {
		for name, a := range map[string]args{
			"read":  {"path": path},
			"write": {"path": path, "content": "changed"},
			"edit":  {"path": path, "old_string": "the secret", "new_string": "changed"},
			"grep":  {"path": path, "pattern": "secret"},

			"apply_patch": {"patch": "*** Begin Patch\n*** Update File: " + path + "\n-the secret\n+changed\n*** End Patch"},
		} {
			t.Run("WS-12 GUARD-12 SAFE-12 "+name+" of "+strings.ReplaceAll(path, filepath.Dir(b.dir), "")+" is refused", func(t *testing.T) {
				r, err := b.try(t.Context(), name, a)
				lacks(t, r.Output, "the secret")
				switch {
				case name == "write" && path == "link.txt" && err == nil:
					// A link is replaced, not followed: what it points at stays.
				case name == "grep" && path == "link.txt" && err == nil && r.Output == "no line matches secret":
					// A link is not followed.
				case err == nil:
					t.Errorf("answered %q", r.Output)
				case tool.ClassOf(err) != tool.Denied || !errors.Is(err, sandbox.ErrOutside):
					t.Errorf("err = %v, want class denied", err)
				}
				if got, err := os.ReadFile(outside); err != nil || string(got) != "the secret\n" {
					t.Fatalf("the file outside holds %q, %v", got, err)
				}
			})
		}
	}
	for name, text := range map[string]string{
		"make":     "*** Add File: ../made\n+x\n",
		"delete":   "*** Delete File: up/secret.txt\n",
		"move out": "*** Update File: sub/x.txt\n*** Move to: abs/made\n-x\n+y\n",
		"move in":  "*** Update File: ../secret.txt\n*** Move to: made\n-the secret\n+y\n",
	} {
		t.Run("WS-12 GUARD-12 SAFE-12 apply_patch cannot "+name, func(t *testing.T) {
			_, err := b.try(t.Context(), "apply_patch", args{"patch": "*** Begin Patch\n" + text + "*** End Patch"})
			if tool.ClassOf(err) != tool.Denied || !errors.Is(err, sandbox.ErrOutside) {
				t.Errorf("err = %v, want class denied", err)
			}
			b.has("sub/x.txt", "x\n")
			if _, err := os.Stat(filepath.Join(filepath.Dir(b.dir), "made")); err == nil {
				t.Error("a file was made outside")
			}
			if got, err := os.ReadFile(outside); err != nil || string(got) != "the secret\n" {
				t.Fatalf("the file outside holds %q, %v", got, err)
			}
		})
	}
	for _, pattern := range []string{"../*", "/etc/*", "up/*", "abs/*", "**/secret.txt", "sub/../../*"} {
		t.Run("WS-12 glob of "+pattern+" shows nothing outside", func(t *testing.T) {
			r, err := b.try(t.Context(), "glob", args{"pattern": pattern})
			lacks(t, r.Output, "/secret.txt\n", "passwd")
			if strings.HasPrefix(pattern, "../") || strings.HasPrefix(pattern, "/") || strings.Contains(pattern, "/../") {
				if tool.ClassOf(err) != tool.Denied || err == nil {
					t.Errorf("err = %v %q, want class denied", err, r.Output)
				}
			} else if err != nil || !strings.HasPrefix(r.Output, "no file matches") {
				t.Errorf("answered %q, %v", r.Output, err)
			}
		})
	}
	t.Run("WS-12 grep does not follow links to the outside", func(t *testing.T) {
		if got := b.good("grep", args{"pattern": "the secret"}); !strings.HasPrefix(got, "no line matches") {
			t.Errorf("answered %q", got)
		}
	})
}

func TestShow(t *testing.T) {
	t.Parallel()
	t.Run("TOOL-10 long output is cut in the middle, kept whole, and says so", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.env.MaxOutput = 300
		b.put("a.txt", strings.Repeat("äöü line\n", 500)+"the end\n")
		r := b.run("read", args{"path": "a.txt"})
		contains(t, r.Output, "     1\täöü line", "the end", "truncated: ", "bytes omitted")
		if len(r.Output) > 300+100 || !utf8.ValidString(r.Output) {
			t.Errorf("%d bytes shown, valid %v", len(r.Output), utf8.ValidString(r.Output))
		}
		if got := strings.Count(string(r.Full), "\n"); got != 501 {
			t.Errorf("full holds %d lines", got)
		}
		b.env.MaxOutput = len(r.Full)
		if r := b.run("read", args{"path": "a.txt"}); r.Full != nil || strings.Contains(r.Output, "truncated") {
			t.Error("truncated at the limit")
		}
		b.env.MaxOutput = len(r.Full) - 1
		if r := b.run("read", args{"path": "a.txt"}); r.Full == nil {
			t.Error("not truncated above the limit")
		}
	})
	t.Run("SAFE-12 NUL, escapes, bidi and bad UTF-8 are made visible", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		got := b.good("bash", args{"command": `printf 'a\0b\033[31mc\342\200\256d\377e\tf'`})
		contains(t, got, "a<U+0000>b<U+001B>[31mc<U+202E>d\uFFFDe\tf")
		b.put("b.txt", "x\u2066y\u2028z\n")
		contains(t, b.good("read", args{"path": "b.txt"}), "x<U+2066>y<U+2028>z")
	})
	t.Run("SAFE-12 a file name cannot fake a line", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.put("a\nfake.go", "needle\n")
		b.put("b\u202e\x1b[2J.go", "needle\n")
		for _, got := range []string{b.good("glob", args{"pattern": "*"}), b.good("grep", args{"pattern": "needle"})} {
			lacks(t, got, "\nfake", "\u202e", "\x1b")
			contains(t, got, "a<U+000A>fake.go", "b<U+202E><U+001B>[2J.go")
		}
	})
}
