package cli_test

import (
	"encoding/json"
	"strings"
	"testing"
)

type created struct {
	Data struct {
		Task, Workspace string
		Session         string `json:"session_id"`
		Stream, Direct  bool
		Variables       map[string]string
		Options         struct {
			MaxSteps     int   `json:"max_steps"`
			MaxToolCalls int   `json:"max_tool_calls"`
			TimeoutMS    int64 `json:"timeout_ms"`
			Autonomy     int
		}
	}
}

// first is the event that a run was created, of the lines of one that is shown as JSON; text as it comes may stand
// before it.
func first(t *testing.T, out string) created {
	t.Helper()
	for line := range strings.Lines(out) {
		if strings.Contains(line, `"type":"dev.inspan.run.created.v1"`) {
			return decode[created](t, line)
		}
	}
	t.Fatalf("no run was created:\n%s", out)
	return created{}
}

func TestRunFlags(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	t.Run("CLI-5 --session, --collaboration and --stream are carried in the task and pinned in the run", func(t *testing.T) {
		s := d.want(0, nil, "run", "reader", "read", "--json", "--session", "shared", "--collaboration", "parallel", "--stream")
		c := first(t, s.out).Data
		if c.Session != "shared" || c.Workspace != "session/shared" || !c.Stream {
			t.Errorf("%+v", c)
		}
		d.want(0, words{`"mode": "parallel"`}, "session", "info", "shared", "--json")
		plain := first(t, d.want(0, nil, "run", "reader", "read", "--json").out).Data
		if plain.Stream || !strings.HasPrefix(plain.Workspace, "run/") {
			t.Errorf("%+v", plain)
		}
	})
	t.Run("CLI-5 --stream prints the model's words as they come, and the events too", func(t *testing.T) {
		d.want(0, words{"The note is read.", "run created for agent reader"}, "run", "reader", "read", "--stream")
		s := d.want(0, nil, "run", "reader", "read", "--stream", "--json")
		for line := range strings.Lines(s.out) {
			if !json.Valid([]byte(line)) {
				t.Errorf("not JSON: %s", line)
			}
		}
	})
	t.Run("CLI-5 --var replaces {{k}} in the task, again and again, and never looks at a value again", func(t *testing.T) {
		s := d.want(0, nil, "run", "reader", `announce {{what}} to {{ who }}, {{what}}; keep \{{this}}`, "--json", "--var", "what=v=2 {{who}}", "--var", "who=all")
		c := first(t, s.out).Data
		if c.Task != "announce v=2 {{who}} to all, v=2 {{who}}; keep {{this}}" || c.Variables["who"] != "all" {
			t.Errorf("%q %v", c.Task, c.Variables)
		}
	})
	t.Run("CLI-5 a variable without a value is an error with the nearest one", func(t *testing.T) {
		for _, args := range [][]string{{"run", "reader", "announce {{waht}}", "--var", "what=x"}, {"run", "reader", "announce {{what}}"}} {
			if s := d.do(args...); s.code != 2 || !strings.Contains(s.err, "--var") || !strings.Contains(s.err, "{{wh") && !strings.Contains(s.err, "{{wa") {
				t.Errorf("exit %d %s", s.code, s.err)
			}
		}
		if s := d.do("run", "reader", "announce {{waht}}", "--var", "what=x"); !strings.Contains(s.err, "did you mean {{what}}?") {
			t.Errorf("%s", s.err)
		}
	})
	t.Run("LIFE-13 --long-running, --estimate and --harness-config say which path a run takes, and the tree shows it", func(t *testing.T) {
		for _, c := range []struct {
			args   words
			direct bool
		}{
			{words{}, false}, {words{"--long-running=false"}, true}, {words{"--long-running"}, false}, {words{"--long-running=false", "--autonomy", "1", "--yes"}, false},
			{words{"--harness-config", `{"enabled":false}`}, true}, {words{"--harness-config", `{"enabled":false}`, "--long-running"}, false},
			{words{"--estimate", "10s"}, false}, // its agent's harness is on
		} {
			s := d.want(0, nil, append(words{"run", "reader", "read", "--json"}, c.args...)...)
			if got := first(t, s.out).Data.Direct; got != c.direct {
				t.Errorf("%v: direct %v", c.args, got)
			}
		}
		d.want(0, words{"run created and started, on the direct path, for agent reader"}, "run", "reader", "read", "--long-running=false", "--id", "shortone")
		d.want(0, words{"· direct", "step-1", "completed"}, "inspect", "shortone")
		for _, bad := range []string{"soon", "-1m"} {
			d.want(2, words{"--estimate", "such as 20m"}, "run", "reader", "read", "--estimate", bad)
		}
		d.want(2, words{"long-running"}, "run", "reader", "read", "--long-running=perhaps")
	})
	t.Run("CLI-5 GIT-12 a repository is never silently left out: what cannot be checked out fails the run, told", func(t *testing.T) {
		s := d.do("run", "reader", "read", "--repo", "file:///nowhere", "--branch", "main", "--depth", "1", "--id", "nowhere", "--json")
		for _, want := range []string{`"repo":"file:///nowhere"`, `"branch":"main","depth":1`, "checkout_failed", "git_prepare", `"delivery":`} {
			if s.code == 0 || !strings.Contains(s.out, want) {
				t.Errorf("exit %d, no %s in %s", s.code, want, s.out)
			}
		}
		d.want(0, words{"git-checkout", "failed", "git-deliver", "blocked", "git_prepare failed"}, "inspect", "nowhere")
		d.want(2, words{"contains a user or a password"}, "run", "reader", "read", "--repo", "https://me:hunter2@host/x")
	})
	t.Run("CLI-6 call with --task is the same, and gives a run of its own each time", func(t *testing.T) {
		one := first(t, d.want(0, nil, "call", "reader", "--task", "read it", "--json").out).Data
		two := first(t, d.want(0, nil, "call", "reader", "--task", "read it", "--json").out).Data
		if one.Task != "read it" || one.Workspace == two.Workspace || one.Session != "" {
			t.Errorf("%+v %+v", one, two)
		}
		if c := first(t, d.want(0, nil, "call", "reader", "--task", "x", "--session", "mine", "--json").out).Data; c.Workspace != "session/mine" {
			t.Errorf("%+v", c)
		}
	})
	t.Run("CLI-12 --harness-config is for one run, above the agent's file, and flags win over it", func(t *testing.T) {
		o := first(t, d.want(0, nil, "run", "reader", "x", "--json", "--max-steps", "8", "--harness-config", "{\"max_steps\": 6,\n\"timeout\": \"90s\", \"autonomy\": 4, \"budget\": {\"tool_calls\": 12}}").out).Data.Options
		if o.MaxSteps != 8 || o.TimeoutMS != 90000 || o.Autonomy != 4 || o.MaxToolCalls != 12 {
			t.Errorf("%+v", o)
		}
	})
	t.Run("CLI-5 CLI-6 CLI-12 what makes no sense is a wrong command line", func(t *testing.T) {
		for _, tc := range []struct {
			want string
			args words
		}{
			{"twice", words{"reader", "x", "--task", "y"}}, {"no task", words{"reader"}}, {"go with --repo", words{"reader", "x", "--ref", "main"}}, {"--depth -1", words{"reader", "x", "--repo", "https://host/x", "--depth", "-1"}},
			{"sequential or parallel", words{"reader", "x", "--session", "s", "--collaboration", "chaos"}}, {"--session", words{"reader", "x", "--collaboration", "parallel"}},
			{"did you mean max_steps?", words{"reader", "x", "--harness-config", `{"max_stepz":1}`}}, {"not JSON", words{"reader", "x", "--harness-config", `{a`}},
			{"cannot differ", words{"reader", "x", "--harness-config", `{"sandbox":{"mode":"host"}}`}}, {"1 to 2", words{"reader", "x", "y"}},
		} {
			if s := d.do(append(words{"run"}, tc.args...)...); s.code != 2 || !strings.Contains(s.err, tc.want) {
				t.Errorf("%v: exit %d %s", tc.args, s.code, s.err)
			}
		}
	})
}
