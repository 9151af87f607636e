package gateprompt

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/pkg/events"
)

// gate is one before a call, with what is needed for each answer.
func gate(tool, input string) *events.GateOpenedData {
	proposal, _ := json.Marshal(map[string]any{"tool": tool, "input": json.RawMessage(input)})
	return &events.GateOpenedData{Gate: "g-1", Step: "build", Call: "c1-1", Description: tool, Reason: "it is loud", Rule: "loud",
		Proposal: proposal, ProposalHash: strings.Repeat("ab", 32), AnswerSubject: "station.s.run.r.gate.g-1", StepsTotal: 2,
		Hooks:  []events.HookAnswer{{Hook: "audit", Answer: "interrupt", Message: "look twice"}},
		Always: &events.Allowance{Rule: "loud", Tool: tool, Pattern: "make all"}}
}

// take types lines until there is an answer.
func take(t *testing.T, p *Prompt, lines ...string) (printed string, a Answer) {
	t.Helper()
	for i, l := range lines {
		out, a, done := p.Take(l)
		printed += strings.Join(out, "\n") + "\n"
		if done != (i == len(lines)-1) {
			t.Fatalf("after %q done is %v", lines[:i+1], done)
		}
		if done {
			return printed, a
		}
	}
	return printed, a
}

func TestPrompt(t *testing.T) {
	t.Parallel()
	bash := func() *Prompt {
		return &Prompt{Gate: gate("bash", `{"command":"make all","timeout_ms":5}`), Session: "s", Width: 100}
	}
	t.Run("PLUS-14 one key answers, and each answer is what it says", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			typed []string
			want  Answer
		}{
			{[]string{"y"}, Answer{Yes: true}},
			{[]string{"YES "}, Answer{Yes: true}},
			{[]string{"n too loud at night"}, Answer{Reason: "too loud at night"}},
			{[]string{"n", "not now"}, Answer{Reason: "not now"}},
			{[]string{"no", ""}, Answer{Reason: "rejected at the prompt"}},
			{[]string{"", "what", "a"}, Answer{Yes: true, Always: events.GrantSession}},
			{[]string{"l"}, Answer{Leave: true}},
			{[]string{"e", "make one"}, Answer{Yes: true, Edit: json.RawMessage(`{"command":"make one","timeout_ms":5}`)}},
			{[]string{"e", "", "y"}, Answer{Yes: true}},
			{[]string{"?", "d", "details", "y"}, Answer{Yes: true}},
		} {
			if _, a := take(t, bash(), c.typed...); !reflect.DeepEqual(a, c.want) {
				t.Errorf("%q: got %+v, want %+v", c.typed, a, c.want)
			}
		}
		p := bash()
		p.Session = ""
		if _, a := take(t, p, "always"); a.Always != events.GrantRun {
			t.Errorf("without a session: %+v", a)
		}
		write := &Prompt{Gate: gate("write", `{"path":"a.md","content":"x"}`)}
		if printed, a := take(t, write, "e", "nonsense", `{ "path":"b.md","content":"y"}`); string(a.Edit) != `{"path":"b.md","content":"y"}` || !strings.Contains(printed, "not a JSON object") {
			t.Errorf("%+v\n%s", a, printed)
		}
	})
	t.Run("PLUS-14 what cannot be answered so is not offered: a step has no arguments, and not every call can be allowed for longer", func(t *testing.T) {
		t.Parallel()
		p := &Prompt{Gate: &events.GateOpenedData{Gate: "g-1", Step: "build", Description: "build it", Proposal: []byte(`{}`)}, Width: 100}
		if text := p.Text(); strings.Contains(text, "[a]") || strings.Contains(text, "[e]") {
			t.Error(text)
		}
		for _, typed := range []string{"a", "e", "always", "edit"} {
			if lines, _, done := p.Take(typed); done || len(lines) == 0 {
				t.Errorf("%q is taken", typed)
			}
		}
	})
	t.Run("PLUS-14a the question shows what always allows, why it is asked, and what changes", func(t *testing.T) {
		t.Parallel()
		p := bash()
		opening := strings.Join(p.Opening(), "\n")
		for _, w := range []string{"bash", "it is loud", "g-1", "make all", "in session s", "24 h"} {
			if !strings.Contains(opening, w) {
				t.Errorf("%q is not in\n%s", w, opening)
			}
		}
		why, _ := take(t, p, "?", "y")
		for _, w := range []string{"rule     loud", "step build, call c1-1", "look twice", p.Gate.ProposalHash, p.Gate.AnswerSubject} {
			if !strings.Contains(why, w) {
				t.Errorf("%q is not in\n%s", w, why)
			}
		}
		edit := gate("edit", `{"path":"a.md","old_string":"one","new_string":"two"}`)
		d := &Prompt{Gate: edit, Diff: Proposed(edit), Width: 80}
		if text := strings.Join(d.Opening(), "\n"); !strings.Contains(text, "-one") || !strings.Contains(text, "+two") || !strings.Contains(d.Text(), "[d]iff") {
			t.Errorf("%s\n%s", text, d.Text())
		}
		long := &Prompt{Gate: edit, Diff: "--- a/x\n+++ b/x\n" + strings.Repeat("+line\n", 40), Width: 80}
		if n := strings.Count(strings.Join(long.Opening(), "\n"), "+line"); n >= 12 {
			t.Errorf("%d lines before it is asked for", n)
		}
		if whole, _ := take(t, long, "d", "y"); strings.Count(whole, "+line") != 40 {
			t.Errorf("d shows\n%s", whole)
		}
	})
	t.Run("PLUS-14 no line is longer than a narrow terminal, and nothing of the command is left out", func(t *testing.T) {
		t.Parallel()
		p := &Prompt{Gate: gate("bash", `{"command":"make all"}`), What: "bash " + strings.Repeat("make all && ", 12) + "true", Width: 40}
		p.Gate.ProposalHash = strings.Repeat("a", 64)
		why, _, _ := p.Take("?")
		for _, l := range append(p.Opening(), why...) {
			if n := ansi.StringWidth(l); n > 40 {
				t.Errorf("%d columns: %s", n, l)
			}
		}
		if text := strings.Join(p.Opening(), " "); strings.Count(text, "make") != 13 { // 12, and what always allows
			t.Error(text)
		}
	})
	t.Run("PLUS-14 a preview is folded until d is typed, replaces the diff of the arguments, and its absence has a reason", func(t *testing.T) {
		t.Parallel()
		diff := "--- a/x\n+++ b/x\n" + strings.Repeat("+line\n", 40)
		write := &Prompt{Gate: gate("write", `{"path":"x","content":"x"}`), Width: 40}
		head := write.Previewed(diff, events.CallPreview{Truncated: true})
		if n := strings.Count(strings.Join(head, "\n"), "+line"); n == 0 || n >= 12 || !strings.Contains(strings.Join(head, " "), "beginning") {
			t.Errorf("%d lines in %q", n, head)
		}
		if whole, _ := take(t, write, "d", "y"); strings.Count(whole, "+line") != 40 {
			t.Errorf("d shows\n%s", whole)
		}
		g := gate("edit", `{"path":"a.md","old_string":"one","new_string":"two"}`)
		edit := &Prompt{Gate: g, Diff: Proposed(g), Width: 80}
		if lines := edit.Previewed(diff, events.CallPreview{}); len(lines) != 0 || edit.Diff != diff {
			t.Errorf("%q", lines)
		}
		none := &Prompt{Gate: g, Diff: "+kept", Width: 80}
		if lines := none.Previewed("", events.CallPreview{Reason: "it moved\x1b[2J"}); !strings.Contains(strings.Join(lines, ""), "no preview: it moved") ||
			strings.Contains(strings.Join(lines, ""), "\x1b") || none.Diff != "+kept" {
			t.Errorf("%q, %q", lines, none.Diff)
		}
	})
	t.Run("CLI-9 SAFE-11 nothing of a model reaches the terminal as more than text, and each line of the question fits 40 columns", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			evil := rapid.StringOf(rapid.SampledFrom([]rune("ab \x1b[2J\u202e\r\n\t+-@世"))).Draw(t, "text")
			input, _ := json.Marshal(map[string]string{"path": evil, "old_string": evil, "new_string": evil + "x"})
			g := gate("edit", string(input))
			g.Description, g.Reason, g.Always.Pattern, g.Hooks[0].Message = evil, evil, evil, evil
			p := &Prompt{Gate: g, Diff: Proposed(g), Width: 40, Paint: terminal.Paint(false)}
			lines := p.Opening()
			for _, key := range []string{"?", "d", "details", "e"} {
				more, _, _ := p.Take(key)
				lines = append(lines, more...)
			}
			for _, l := range lines {
				if strings.ContainsAny(l, "\x1b\r\n\u202e") {
					t.Fatalf("%q", l)
				}
			}
			if w := ansi.StringWidth((&Prompt{Gate: g, Width: 40}).Text()); w > 40 {
				t.Fatalf("the question has %d cells", w)
			}
		})
	})
}
