package preview

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/gitwork/gitcall"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/runlog/runlogtest"
	"github.com/inspan/inspan/internal/secret"
	builtin "github.com/inspan/inspan/internal/tools"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/pkg/tool"
)

const runID = "r1"

// bed is a previewer over ports in memory, with a run in the workspace run/r1.
type bed struct {
	runlogtest.Log
	previewer *Previewer
	root      string
}

// gated is a bed with a call, c2-1, that waits at gate g-1 with the given arguments of the tool write.
func gated(t *testing.T, args string) (*bed, runlog.ReceivedEvent) {
	t.Helper()
	all, err := tool.NewRegistry(builtin.Builtin()...)
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{Log: runlogtest.New(t, runID), root: filepath.Join(t.TempDir(), "work")}
	b.previewer = New(Config{Ledger: b.Ledger(events.Toolrunner), Blobs: b.Station.Blobs(), Root: b.root, Git: gitcall.New(gitcall.Config{}),
		Workspaces: workspace.Workspaces{Uses: workspace.NewUses(b.root), Attempts: &workspace.Attempts{}},
		Find:       func(_ run.State, c run.Call) (tool.Tool, bool) { return all.Get(c.Tool) },
		Mask:       secret.Mask(secret.New("open sesame"))})
	created, ref := runtest.Created(), runtest.Ref("a", "c1-1", "bash")
	created.Workspace = "run/" + runID
	b.Say(events.Planner, created, runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"))
	b.Say(events.Gatekeeper, runtest.Allowed("a"))
	b.Say(events.Executor, runtest.Turn(1, "a", "one call", runtest.Asked(1, 1, "bash", `{}`)))
	b.Say(events.Gatekeeper, runtest.CallYes(ref, call.Once))
	b.Say(events.Toolrunner, runtest.CallBegun(ref, 1))
	b.Say(events.Toolrunner, runtest.CallDone(ref, b.State().Open["c1-1"].Fence, "ok"))
	b.Say(events.Executor, runtest.Turn(2, "a", "another", runtest.Asked(2, 1, "write", args)))
	b.Say(events.Gatekeeper, runtest.GateAt("g-1", "a", "c2-1"))
	s := b.State()
	return b, runlog.ReceivedEvent{Run: runID, Kind: events.GateOpened, Sequence: s.Gate("g-1").Sequence, State: s, Deliveries: 1}
}

func (b *bed) gate() *run.Gate {
	s := b.State()
	return s.Gate("g-1")
}

func (b *bed) file(name, content string) {
	b.Helper()
	path := filepath.Join(b.root, "run", runID, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		b.Fatal(err)
	}
}

func (b *bed) shown(h runlog.ReceivedEvent) *events.CallPreview {
	b.Helper()
	if err := b.previewer.Serve(b.Context(), h); err != nil {
		b.Fatal(err)
	}
	return b.gate().Preview
}

func TestPreview(t *testing.T) {
	t.Parallel()
	const notes = `{"path":"notes.txt","content":"one\nopen sesame\n"}`
	t.Run("PLUS-14 a gate has one preview, however often it is delivered", func(t *testing.T) {
		t.Parallel()
		b, h := gated(t, notes)
		b.file("notes.txt", "one\ntwo\n")
		p := b.shown(h)
		if p == nil || p.Diff == nil {
			t.Fatalf("%+v", p)
		}
		diff, err := b.Station.Blobs().Get(t.Context(), *p.Diff)
		if err != nil || !strings.Contains(string(diff), "-two\n") || strings.Contains(string(diff), "open sesame") {
			t.Errorf("%v: %s", err, diff)
		}
		at := b.State().Sequence
		b.file("notes.txt", "changed\n")
		if again := b.shown(h); *again.Diff != *p.Diff || b.State().Sequence != at {
			t.Errorf("shown again: %+v", again)
		}
	})
	t.Run("PLUS-14 nothing is appended behind the answer, and what is there harms no fold", func(t *testing.T) {
		t.Parallel()
		b, h := gated(t, notes)
		b.file("notes.txt", "one\n")
		b.Say(events.Gatekeeper, runtest.Yes(b.gate()))
		at := b.State().Sequence
		if p := b.shown(h); p != nil || b.State().Sequence != at {
			t.Errorf("%+v", p)
		}
		g := b.gate()
		late := &events.CallPreviewedData{Event: "call_previewed", ToolRef: runtest.Ref("a", "c2-1", "write"), Gate: g.ID, ProposalHash: g.Hash,
			CallPreview: events.CallPreview{Reason: "late"}}
		b.Say(events.Toolrunner, late, late)
		if g := b.gate(); g.Status != run.GateApproved || g.Preview.Reason != "late" {
			t.Errorf("%+v", g)
		}
	})
	for name, c := range map[string]struct {
		args, want string
		plant      func(b *bed) error
	}{
		"a workspace that is not here": {notes, "not on this machine", func(b *bed) error { return os.RemoveAll(filepath.Join(b.root, "run")) }},
		"a way out":                    {`{"path":"../other/notes.txt","content":"x"}`, "not a path", nil},
		"a link to a secret file": {notes, "not a regular file", func(b *bed) error {
			b.file(".env", "KEY=hunter2")
			return os.Symlink(".env", filepath.Join(b.root, "run", runID, "notes.txt"))
		}},
		"a link to a folder": {`{"path":"in/id","content":"x"}`, "link", func(b *bed) error {
			b.file(".ssh/id", "hunter2")
			return os.Symlink(".ssh", filepath.Join(b.root, "run", runID, "in"))
		}},
		"a secret file":  {`{"path":"a/.env","content":"x"}`, "secrets", func(b *bed) error { b.file("a/.env", "hunter2"); return nil }},
		"a folder":       {`{"path":"in","content":"x"}`, "not a regular file", func(b *bed) error { b.file("in/a", "x"); return nil }},
		"a large file":   {notes, "too large", func(b *bed) error { b.file("notes.txt", strings.Repeat("x\n", 2<<20)); return nil }},
		"the same again": {notes, "changes nothing", func(b *bed) error { b.file("notes.txt", "one\nopen sesame\n"); return nil }},
	} {
		t.Run("PLUS-14 SAFE-11 no preview, with the reason: "+name, func(t *testing.T) {
			t.Parallel()
			b, h := gated(t, c.args)
			b.file("other.txt", "x")
			if c.plant != nil {
				if err := c.plant(b); err != nil {
					t.Fatal(err)
				}
			}
			if p := b.shown(h); p == nil || p.Diff != nil || !strings.Contains(p.Reason, c.want) || strings.Contains(p.Reason, "hunter2") {
				t.Errorf("got %+v, want %q", p, c.want)
			}
		})
	}
	t.Run("PLUS-14 a long diff is cut at a line, and marked", func(t *testing.T) {
		t.Parallel()
		b, h := gated(t, `{"path":"notes.txt","content":"short\n"}`)
		b.file("notes.txt", strings.Repeat("a line that goes\n", 1<<15))
		p := b.shown(h)
		if p == nil || p.Diff == nil || !p.Truncated || p.Diff.Size > maxPreview {
			t.Fatalf("%+v", p)
		}
		if diff, err := b.Station.Blobs().Get(t.Context(), *p.Diff); err != nil || !strings.HasSuffix(string(diff), "goes\n") {
			t.Errorf("%v", err)
		}
	})
	t.Run("PLUS-14 a gate of a step and of a tool without a preview has none", func(t *testing.T) {
		t.Parallel()
		b, h := gated(t, notes)
		b.previewer.cfg.Find = func(run.State, run.Call) (tool.Tool, bool) { return nil, false }
		at := b.State().Sequence
		if p := b.shown(h); p != nil || b.State().Sequence != at {
			t.Errorf("%+v", p)
		}
	})
}

func TestPreviewOfEdit(t *testing.T) {
	t.Parallel()
	all, err := tool.NewRegistry(builtin.Builtin()...)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ tool, args, file, want, fault string }{
		"an edit":             {"edit", `{"path":"a b.txt","old_string":"two","new_string":"2"}`, "one\ntwo\n", "--- a/a b.txt\n+++ b/a b.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n", ""},
		"an edit that is off": {"edit", `{"path":"a","old_string":"none","new_string":"2"}`, "one\n", "", "does not fit"},
		"a new file":          {"write", `{"path":"a","content":"x\n"}`, "-", "--- /dev/null\n+++ b/a\n@@ -0,0 +1,1 @@\n+x\n", ""},
		"a name in two lines": {"write", `{"path":"a\n+b","content":""}`, "-", "--- /dev/null\n+++ b/a<U+000A>+b\n", ""},
		"a binary file":       {"write", `{"path":"a","content":"x"}`, "\x00\xff", "Binary file a: 2 bytes become 1\n", ""},
	} {
		t.Run("PLUS-14 "+name, func(t *testing.T) {
			t.Parallel()
			found, _ := all.Get(c.tool)
			got, err := found.(tool.Previewer).Preview(context.Background(), json.RawMessage(c.args), tool.View{Read: func(string) ([]byte, error) {
				if c.file == "-" {
					return nil, fs.ErrNotExist
				}
				return []byte(c.file), nil
			}})
			if got != c.want || (err != nil) != (c.fault != "") || err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
	if _, err := workdir.Read(filepath.Join(t.TempDir(), "none"), "run/x", "a", 1); !errors.Is(err, workdir.ErrMissing) {
		t.Errorf("got %v, want ErrMissing", err)
	}
}
