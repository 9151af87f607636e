package tools_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/tools"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/pkg/tool/tooltest"
)

// TestExam takes every built-in tool; one that is added without arguments here fails.
func TestExam(t *testing.T) {
	t.Parallel()
	good := map[string][]string{
		"read":        {`{"path":"a.txt"}`, `{"path":"a.txt","offset":2,"limit":1}`, `{"path":"long.txt"}`},
		"write":       {`{"path":"new/w.txt","content":"x"}`},
		"edit":        {`{"path":"e.txt","edits":[{"old_string":"x","new_string":"xx"}]}`, `{"path":"e.txt","old_string":"x","new_string":"x","replace_all":true}`},
		"apply_patch": {`{"patch":"--- a/e.txt\n+++ b/e.txt\n@@ -1 +1 @@\n-x\n+y\n"}`},
		"bash":        {`{"command":"seq 100; echo problem >&2"}`, `{"command":"exit 3","timeout_ms":5000}`, `{"command":"make","run_in_background":true}`},
		"bash_output": {`{}`, `{"bash_id":"bg-1"}`, `{"bash_id":"bg-1","filter":"line 1","wait_ms":5}`},
		"kill_shell":  {`{"shell_id":"bg-1"}`},
		"glob":        {`{"pattern":"**/*"}`},
		"grep":        {`{"pattern":"o"}`, `{"pattern":"o","path":".","glob":"*.txt","context":2,"limit":3}`},
		"git_status":  {`{}`},
		"git_diff":    {`{}`, `{"rev":"HEAD","path":"a.txt"}`, `{"staged":true}`},
		"git_log":     {`{}`, `{"limit":1}`},
		"git_prepare": {`{}`, `{"url":"https://a.example/x","ref":"pull/1/head","depth":1,"working_branch":"w","new_branch":"n"}`, `{"sides":["a"]}`},
		"git_branch":  {`{"task":"fix it"}`},
		"git_commit":  {`{"message":"fix it"}`},
		"git_merge":   {`{"from":["a","b"],"into":"c","message":"m"}`, `{"from":["a"],"onto":"0123456789012345678901234567890123456789","commits":["0123456789012345678901234567890123456789"]}`},
		"git_push":    {`{"branch":"a","commit":"0123456789012345678901234567890123456789","url":"git@a.example:x","to":"b"}`},
		"git_remove":  {`{"branch":"a","commit":"0123456789012345678901234567890123456789","into":"main"}`},
		"git_review":  {`{"how":"github","branch":"a","commit":"0123456789012345678901234567890123456789","target":"main","title":"t"}`},
		"git_publish": {`{"branch":"a"}`},
		"skill":       {`{"name":"long"}`},
		"secret_scan": {`{}`, `{"path":".","glob":"*.txt","limit":1}`},
		"web_fetch":   {`{"url":"https://a.example/"}`, `{"url":"http://a.example/x","raw":true}`},

		"artifact_save": {`{"path":"a.txt"}`, `{"path":"a.txt","type":"report","name":"the result"}`},
	}
	for _, tl := range tools.Builtin() {
		name := tl.Spec().Name
		if name == "screenshot" { // it wants a browser: TestScreenshot
			continue
		}
		if slices.Contains([]string{"delegate", "delegate_result", "mail_send", "mail_read", "who", "handoff", "work_current", "deliver"}, name) {
			if _, err := tl.Run(t.Context(), tool.Call{Input: []byte(`{}`)}); tool.ClassOf(err) != tool.Permanent {
				t.Errorf("%s is answered out of the log, and ran: %v", name, err)
			}
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tooltest.Exam(t, tl, func(t *testing.T) tool.Env {
				b := repository(t)
				b.put("long.txt", "a line of some length\nanother\n")
				b.put("e.txt", "x\n")
				b.env.Skill = func(name string) (string, bool) { return strings.Repeat("do it well\n", 10), name == "long" }
				b.env.Fetch = web(webExample)
				b.env.Git = &gitDouble{answer: `{"commit":"` + strings.Repeat("0", 100) + `"}`}
				b.env.Background = &pen{looks: []tool.BackgroundLook{{Handle: "bg-1", Text: "make", Output: []byte(strings.Repeat("line 1\n", 40)), To: 280, Total: 280, Running: true}}}
				b.env.Save = func(ctx context.Context, s tool.Saving) (tool.Saved, error) {
					return tool.Saved{Name: s.Path, Type: "file", Size: 1}, ctx.Err()
				}
				return b.env
			}, good[name]...)
		})
	}
}

// TestEndDuringWork ends a search while it works: the end of a context is never told as a failed file.
func TestEndDuringWork(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 50 {
		b.put("d/"+string(rune('a'+i%26))+string(rune('a'+i/26))+".txt", "text\n")
	}
	for name, a := range map[string]args{"glob": {"pattern": "**/*"}, "grep": {"pattern": "t"}} {
		t.Run("TOOL-6 "+name+" past its deadline is a timeout", func(t *testing.T) {
			t.Parallel()
			_, err := b.try(&expiring{Context: t.Context(), calls: 3}, name, a)
			if tool.ClassOf(err) != tool.Timeout {
				t.Errorf("got %v of class %s, want a timeout", err, tool.ClassOf(err))
			}
		})
	}
}

// expiring is past its deadline from the n-th look on, wherever that is.
type expiring struct {
	context.Context
	calls int
}

func (e *expiring) Deadline() (time.Time, bool) { return time.Unix(1, 0), true }

func (e *expiring) Err() error {
	if e.calls--; e.calls > 0 {
		return nil
	}
	return context.DeadlineExceeded
}
