package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// family are the agents of a tree: lead has planner and waits below it, planner has reader.
var family = map[string]string{
	"agents/lead.prompt":    agent("lead", "read"),
	"scripts/lead.yaml":     "turns:\n  - text: led\n    usage: {input: 10, output: 1}\n",
	"agents/planner.prompt": strings.Replace(agent("planner", "read"), "harness:\n", "plan: model\nharness:\n", 1),
	"agents/slow.prompt":    agent("slow", "bash"),
	"scripts/slow.yaml":     "turns:\n  - calls: [{name: bash, input: {command: sleep 3600}}]\n",
	"scripts/planner.yaml": `turns:
  - when: {purpose: plan}
    text: '{"steps":[{"id":"deep","description":"read the note","agent":"reader","child":"own"}]}'
    usage: {input: 40, output: 2}
`,
}

func TestTree(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for name, text := range family {
		if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	plan := filepath.Join(d.dir, "plan.json")
	if err := os.WriteFile(plan, []byte(`{"steps":[{"id":"a","description":"do a","agent":"planner","child":"own"},
		{"id":"b","description":"do b","agent":"reader","child":"own","needs":["a"]},{"id":"c","description":"do c","needs":["b"]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	d.up()
	type row struct {
		HarnessID, AgentName, Status, ParentHarnessID, ParentStep, Outcome, FinishReason string
		Depth                                                                            int
		Use                                                                              struct {
			Runs, Turns  int
			ToolCalls    int `json:"tool_calls"`
			InputTokens  int `json:"input_tokens"`
			OutputTokens int `json:"output_tokens"`
		}
		Waits []struct {
			On, Text string
		}
	}
	d.want(0, nil, "run", "lead", "go", "--id", "top", "--plan", plan)
	t.Run("SUB-2 CLI-2 tree shows a run with all runs below it, and what each used", func(t *testing.T) {
		rows := decode[[]row](t, d.want(0, nil, "tree", "top", "--json").out)
		var order []string
		in := 0
		for _, r := range rows {
			order = append(order, strings.Repeat(" ", r.Depth)+r.ParentStep+"/"+r.AgentName+"/"+r.Status)
			in += r.Use.InputTokens
		}
		if got, want := strings.Join(order, "\n"), "/lead/completed\n a/planner/completed\n  deep/reader/completed\n b/reader/completed"; got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
		if rows[2].ParentHarnessID != rows[1].HarnessID || rows[2].Outcome != "completed" || rows[0].Use.InputTokens != 10 || in != 10+40+300+300 {
			t.Errorf("%d in: %+v", in, rows)
		}
		out := d.want(0, words{"top", "├ child_", "│ └ child_", "└ child_", "4 runs: ", "2 calls", "WAITS FOR / RESULT", "  unverified\n"}, "tree", "top").out
		if strings.Count(out, "\n") != 6 {
			t.Errorf("%s", out)
		}
		leaf := rows[2].HarnessID
		if one := decode[[]row](t, d.want(0, nil, "tree", leaf, "--json").out); len(one) != 1 || one[0].HarnessID != leaf {
			t.Errorf("%+v", one)
		}
		if whole := decode[[]row](t, d.want(0, nil, "tree", leaf, "--root", "--json").out); len(whole) != 4 || whole[0].HarnessID != "top" {
			t.Errorf("%+v", whole)
		}
		if last := decode[[]row](t, d.want(0, nil, "tree", "last", "--json").out); len(last) != 4 || last[0].HarnessID != "top" {
			t.Errorf("last is no child: %+v", last)
		}
		d.want(5, words{"run-none"}, "tree", "run-none")
		d.want(5, words{"run-none"}, "tree", "run-none", "--root")
	})
	t.Run("CLI-2 a step that a child carried out is shown without turns of its own", func(t *testing.T) {
		for _, args := range [][]string{{"logs", "top"}, {"inspect", "top"}} {
			if out := d.want(0, nil, args...).out; strings.Contains(out, "0 turns") {
				t.Errorf("%s", out)
			}
		}
	})
	t.Run("PLUS-3 cost and inspect sum up over the tree", func(t *testing.T) {
		type sums struct {
			Total struct{ Runs, InputTokens int }
		}
		if c := decode[sums](t, d.want(0, nil, "cost", "top", "--json").out); c.Total.Runs != 4 || c.Total.InputTokens != 650 {
			t.Errorf("%+v", c)
		}
		d.want(0, words{"Child runs", "2 spawned; 3 ended runs below used", "2 calls", "inspan tree top"}, "inspect", "top")
	})
	t.Run("PLUS-5 CLI-2 a run with a living child says that it waits for it, and tree what the child does", func(t *testing.T) {
		if err := os.WriteFile(plan, []byte(`{"steps":[{"id":"a","description":"do a","agent":"slow","child":"own"}]}`), 0o600); err != nil {
			t.Fatal(err)
		}
		d.want(0, nil, "run", "lead", "go", "--id", "long", "--plan", plan, "--detach")
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		var rows []row
		for ; len(rows) < 2 || rows[1].Waits[0].On != "call"; <-tick.C {
			if rows = decode[[]row](t, d.want(0, nil, "tree", "long", "--json").out); rows[0].Status == "failed" {
				t.Fatalf("%+v", rows)
			}
		}
		d.want(0, words{"step a waits for child run child_", "inspan why child_"}, "why", "long")
		d.want(0, words{"its child runs", "sleep 3600", "running"}, "tree", "long")
		d.want(0, words{"1 spawned, 1 of them at work"}, "inspect", "long")
		d.want(0, nil, "stop", "long")
		d.want(1, words{"its parent is stopping"}, "watch", rows[1].HarnessID)
		d.want(1, words{"stopped"}, "watch", "long")
	})
}
