package cli_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const twoLegs = `formula = "sides"
description = "Look at {{what}} from two sides."
[vars.what]
required = true
[defaults]
agent = "leg"
[[legs]]
id = "left"
title = "the left side of {{what}}"
[[legs]]
id = "right"
title = "the right side of {{what}}"
agent = "waits"
[synthesis]
title = "bring both together"
agent = "joins"
`

// withFormulas is a desk with formulas, and agents for their steps. The agent waits works until there is a file go.
func withFormulas(t *testing.T) *desk {
	t.Helper()
	d := newDesk(t)
	for name, text := range map[string]string{
		"formulas/sides.formula.toml":   twoLegs,
		"formulas/bad.formula.toml":     "formula = \"bad\"\n[[steps]]\nid = \"a\"\ntitle = \"{{x}}\"\n",
		"formulas/states.workflow.yaml": "id: states\ninput: {what: {type: string}}\nstates:\n  - {name: one, agent: leg, input: \"Look at ${input.what}\", resultPath: seen}\n  - {name: two, agent: leg, input: \"Say {{ctx.seen}}\"}\n",
		"agents/leg.prompt":             agent("leg", "read"),
		"agents/waits.prompt":           agent("waits", "bash"),
		"agents/joins.prompt":           agent("joins", "read"),
		"scripts/leg.yaml":              "turns:\n  - text: \"saw {{step}}\"\n",
		"scripts/joins.yaml":            "turns:\n  - {when: {message: {contains: \"saw left\"}}, text: \"left and right\"}\n  - text: saw nothing\n",
		"scripts/waits.yaml":            "turns:\n  - {when: {turn: 1}, calls: [{name: bash, input: {command: \"touch '" + d.dir + "/began'; while [ ! -e '" + d.dir + "/go' ]; do sleep 0.05; done\"}}]}\n  - text: \"saw {{step}}\"\n",
	} {
		putFile(t, filepath.Join(d.dir, name), text)
	}
	return d
}

func TestFormula(t *testing.T) {
	t.Parallel()
	d := withFormulas(t)
	putFile(t, filepath.Join(d.dir, "go"), "")
	d.up()
	at := func(args ...string) []string {
		return append(append([]string{"formula"}, args...), "--formulas", filepath.Join(d.dir, "formulas"))
	}
	t.Run("CLI-1 FORM-1 formulas are listed, shown, drawn and checked", func(t *testing.T) {
		d.want(0, words{"sides", "convoy", "what", "bad", "1 fault", "states", "workflow"}, at("list")...)
		d.want(0, words{"Formula", "sides", "synthesis", "left, right", "required"}, at("show", "sides")...)
		d.want(0, words{`"the left side of x"`, `"digest"`}, at("show", "sides", "--var", "what=x")...)
		d.want(0, words{`"left" -> "synthesis";`}, at("graph", "sides", "--form", "dot")...)
		d.want(0, words{"WAVE", "two", "one"}, at("graph", "states")...)
		bad := filepath.Join(d.dir, "formulas", "bad.formula.toml") + ":4:10: steps[0].title: the template \"{{x}}\" names nothing"
		d.want(1, words{bad, "1 of 3 formulas cannot be used", "sides: 3 steps"}, at("check")...)
		var rows []struct {
			Name   string
			OK     bool
			Faults []struct{ Line, Column int }
		}
		if err := json.Unmarshal([]byte(d.want(1, nil, at("check", "--json")...).out), &rows); err != nil || len(rows) != 3 || rows[0].OK || rows[0].Faults[0].Column != 10 || !rows[1].OK {
			t.Errorf("%v %+v", err, rows)
		}
		d.want(5, words{`there is no formula "side"; did you mean "sides"?`}, at("show", "side")...)
		d.want(2, words{"vars.what: the variable what is required", "--var what=VALUE"}, at("run", "sides")...)
		d.want(2, words{"there is no folder"}, "formula", "show", "sides", "--formulas", filepath.Join(d.dir, "none"))
	})
	t.Run("FORM-6 FORM-4 CLI-5 a formula is run and watched, and inspect shows which it was", func(t *testing.T) {
		d.want(0, words{"left and right", "plan completed, 3 steps"}, at("run", "sides", "--var", "what=it", "--id", "sides-1", "--autonomy", "5", "--empty")...)
		d.want(0, words{"Formula", "sides, digest "}, "inspect", "sides-1")
		d.want(0, words{`"workflow_run_id":"sides-1"`}, "logs", "sides-1", "--json")
	})
	t.Run("FORM-8 FORM-12 FORM-13 a workflow is run, and its states read what came before", func(t *testing.T) {
		d.want(0, words{"saw two"}, "formula", "run", filepath.Join(d.dir, "formulas", "states.workflow.yaml"), "--var", "what=it", "--id", "states-1", "--empty")
		d.want(0, words{"Look at it", "the result of the step \\\"one\\\""}, "logs", "states-1", "--json")
	})
	t.Run("CLI-9 names of formulas are completed", func(t *testing.T) {
		if s := inspan(t, "__complete", "formula", "show", "--formulas", filepath.Join(d.dir, "formulas"), "s"); !strings.Contains(s.out, "sides\n") || !strings.Contains(s.out, "states\n") {
			t.Errorf("%q", s.out)
		}
	})
}

func TestFormulaTrust(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-6 formulas of a directory are looked at, but do not run before they were accepted, and not after a change", func(t *testing.T) {
		t.Parallel()
		s := newStranger(t)
		s.put("scripts/evil.yaml", "turns:\n  - text: Done.\n")
		text := "formula = \"f\"\n[defaults]\nagent = \"evil\"\n[[steps]]\nid = \"a\"\ntitle = \"work\"\naccept = \"touch " + s.mark + ".check\"\n"
		s.put("formulas/f.formula.toml", text)
		s.do(0, []string{"f: 1 step"}, "", "formula", "check")
		s.do(4, []string{"formulas", filepath.Join(s.dir, "formulas"), "inspan trust"}, "", "formula", "run", "f")
		s.do(0, []string{"formula f: step a is done once this succeeds: touch " + s.mark + ".check", "formula f: steps for agents evil"}, "", "trust")
		s.do(0, nil, "check", "formula", "run", "f")
		s.put("formulas/f.formula.toml", strings.ReplaceAll(text, ".check", ".other"))
		s.do(4, []string{"changed since"}, "", "formula", "run", "f")
		s.do(0, []string{"Accepted for this once"}, "other", "formula", "run", "f", "--trust")
		s.do(0, nil, "other", "formula", "run", "f", "--formulas", "formulas")
	})
}

func TestFormulaKilled(t *testing.T) {
	t.Parallel()
	t.Run("FORM-6 PERS-15 TRIG-11 a convoy whose station is killed in the middle goes on where it was, and ends right", func(t *testing.T) {
		t.Parallel()
		d := withFormulas(t)
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		in := func(name string) string { return filepath.Join(d.dir, name) }
		cmd := exec.CommandContext(t.Context(), self, "formula", "run", "sides", "--var", "what=it", "--id", "killed", "--ephemeral", "--empty", "--yes",
			"--store", in("store"), "--agents", in("agents"), "--scripts", in("scripts"), "--formulas", in("formulas"), "--sandbox", "host")
		home := t.TempDir()
		cmd.Env = append(os.Environ(), cliVar+"=1", "HOME="+home, "XDG_STATE_HOME="+home, "XDG_CONFIG_HOME="+home)
		cmd.Dir = d.dir
		var out buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		waited := make(chan error, 1)
		go func() { waited <- cmd.Wait() }()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for _, err := os.Stat(in("began")); err != nil || !strings.Contains(out.String(), "step left finished"); _, err = os.Stat(in("began")) {
			select {
			case <-tick.C:
			case err := <-waited:
				t.Fatalf("%v\n%s", err, out.String())
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-waited
		putFile(t, in("go"), "")
		d.up()
		s := d.want(0, words{"run completed: 3 of 3 steps"}, "logs", "killed", "--follow")
		for _, once := range []string{"step left finished", "step right finished", "step synthesis finished", "plan completed"} {
			if n := strings.Count(s.out, once); n != 1 {
				t.Errorf("%q stands %d times:\n%s", once, n, s.out)
			}
		}
		d.want(0, words{"left and right", "sides, digest "}, "inspect", "killed")
	})
}
