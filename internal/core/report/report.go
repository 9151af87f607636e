// Package report makes the report of a run that worked while no one watched: what was done in each phase, which checks
// passed, what it cost and what is left.
//
// Promises: a report is a function of the events of a run and nothing else, so that whoever makes it makes the same
// text. No model writes in it but where its words are quoted: they stand in indented blocks, which Markdown shows as
// they are.
package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
)

// Limits of what a report quotes, in characters, and of the phases that it has one by one.
const (
	maxQuote  = 2000
	maxTask   = 600
	maxPhases = 200
)

// Report gathers the events of a run, in order.
type Report struct {
	tree    view.Tree
	created events.RunCreatedData
	// vouches are the steps whose last claim has a check that can verify it.
	vouches     map[string]bool
	checkpoints int
	last        time.Time
}

// Of is the report of the stored events of a run.
func Of(stored [][]byte) (string, error) {
	r := &Report{}
	for i, b := range stored {
		f, p, err := events.Read(b)
		if err != nil {
			return "", fmt.Errorf("report of event %d: %w", i+1, err)
		}
		r.Apply(f, p)
	}
	return r.Markdown(), nil
}

// Apply adds an event.
func (r *Report) Apply(f events.Event, p events.Payload) {
	r.tree.Apply(f, p)
	r.last = f.Time
	switch d := p.(type) {
	case *events.RunCreatedData:
		r.created, r.vouches = *d, map[string]bool{}
	case *events.StepClaimedData:
		r.vouches[d.Step] = slices.ContainsFunc(d.Checks, func(c events.Check) bool {
			return c.Kind == events.CheckCommand || c.Kind == events.CheckGit || c.Kind == events.CheckPerson
		})
	case *events.CheckpointTakenData:
		r.checkpoints++
	case *events.StepFinishedData:
		r.checkpoints += min(1, d.Checkpoint)
	case *events.StepFailedData:
		r.checkpoints += min(1, d.Checkpoint)
	}
}

// Markdown is the report up to the last event.
func (r *Report) Markdown() string {
	var b strings.Builder
	t := &r.tree
	fmt.Fprintf(&b, "# Report of run %s\n\n| | |\n| --- | --- |\n", t.Run)
	for _, row := range r.summary() {
		if row[1] != "" {
			fmt.Fprintf(&b, "| %s | %s |\n", row[0], cell(row[1]))
		}
	}
	phases := r.phases()
	b.WriteString("\n## What was done\n")
	for i, st := range phases[:min(len(phases), maxPhases)] {
		r.phase(&b, i+1, st)
	}
	if more := len(phases) - maxPhases; more > 0 {
		fmt.Fprintf(&b, "\n%s more: inspan inspect %s\n", view.Plural(more, "phase"), t.Run)
	}
	r.left(&b, phases)
	return b.String()
}

// phases are the steps that are not those of the harness.
func (r *Report) phases() (all []*view.StepNode) {
	for _, st := range r.tree.Steps {
		if st.Kind == "" {
			all = append(all, st)
		}
	}
	return all
}

func (r *Report) summary() [][2]string {
	t, o := &r.tree, r.created.Options
	done, verified := 0, 0
	for _, st := range r.phases() {
		if st.Status == events.StepIsCompleted {
			done++
		}
		if r.verified(st) {
			verified++
		}
	}
	schedule := ""
	if f := r.created.Firing; f != nil {
		schedule = fmt.Sprintf("%s, firing %d for %s", f.Schedule, f.Number, moment(f.At))
	}
	use := r.spent()
	spent := fmt.Sprintf("%d tokens%s", use.tokens, most(o.MaxTokens > 0, fmt.Sprint(o.MaxTokens)))
	if use.cost > 0 || o.MaxCost > 0 {
		spent += fmt.Sprintf(", %s%s", use.cost, most(o.MaxCost > 0, o.MaxCost.String()))
	}
	spent += fmt.Sprintf(", %s%s", view.Plural(use.calls, "tool call"),
		most(o.MaxToolCalls > 0, fmt.Sprint(o.MaxToolCalls)))
	return [][2]string{{"Result", r.result()}, {"Task", view.Clip(t.Task, maxTask)}, {"Agent", t.Agent},
		{"Mode", string(o.Mode)},
		{"Schedule", schedule}, {"Time", r.time()},
		{"Phases", fmt.Sprintf("%d of %d done, %d verified", done, len(r.phases()), verified)}, {"Spent", spent},
		{"Checkpoints", fmt.Sprint(r.checkpoints)}}
}

func most(limited bool, limit string) string {
	if !limited {
		return ""
	}
	return " of at most " + limit
}

// result is how the run ended, or where it stands.
func (r *Report) result() string {
	res := r.tree.Result
	switch {
	case res == nil:
		return "not ended: " + string(r.tree.Status) + parenthesis(r.tree.PauseReason)
	case res.Success:
		return "completed, " + view.Verified(res)
	}
	return strings.TrimSuffix(fmt.Sprintf("%s (%s): %s", res.Status, res.FinishReason, view.Clip(res.Error, maxTask)),
		": ")
}

func (r *Report) time() string {
	t := &r.tree
	end := cmp.Or(t.Ended, r.last)
	if t.Started.IsZero() {
		return moment(t.Created)
	}
	return fmt.Sprintf("%s to %s, %s", moment(t.Started), moment(end), end.Sub(t.Started).Round(time.Second))
}

// use is what a run or a phase of it used.
type use struct {
	tokens, calls int
	cost          events.MicroUSD
}

// spent is what the run used, with the children that have ended.
func (r *Report) spent() use {
	t := &r.tree
	u := use{t.Tokens.Input + t.Tokens.Output, t.Calls, t.Cost}
	if res := t.Result; res != nil {
		u = use{res.InputTokens + res.OutputTokens, res.ToolCallCount, res.Cost}
	}
	return use{u.tokens + t.Below.InputTokens + t.Below.OutputTokens, u.calls + t.Below.ToolCalls, u.cost + t.Below.Cost}
}

func spentIn(st *view.StepNode) use {
	u := use{st.Child.Use.InputTokens + st.Child.Use.OutputTokens, st.Child.Use.ToolCalls, st.Child.Use.Cost}
	for _, turn := range st.Turns {
		u.tokens, u.cost = u.tokens+turn.In+turn.Out, u.cost+turn.Cost
		for _, c := range turn.Calls {
			if c.State != view.CallRefused && !c.State.Open() {
				u.calls++
			}
		}
	}
	return u
}

// verified reports whether checks that can verify a phase have passed.
func (r *Report) verified(st *view.StepNode) bool {
	return st.Status == events.StepIsCompleted && r.vouches[st.ID] && !slices.ContainsFunc(st.Claim.Checks,
		func(c view.CheckNode) bool { return c.State != view.CheckPassed })
}

// state is what became of a phase, in words.
func (r *Report) state(st *view.StepNode) string {
	switch st.Status {
	case events.StepIsCompleted:
		if r.verified(st) {
			return "done, verified"
		}
		return "done, unverified"
	case events.StepIsFailed:
		return "failed"
	case events.StepIsBlocked:
		return "not begun: what it depends on failed"
	case events.StepIsRunning:
		return "not finished"
	case events.StepIsPending, events.StepIsReady:
		return "not begun"
	case events.StepIsSkipped:
		return "skipped"
	}
	return string(st.Status)
}

func (r *Report) phase(b *strings.Builder, n int, st *view.StepNode) {
	fmt.Fprintf(b, "\n### %d. %s: %s\n\n", n, st.ID, r.state(st))
	began := cmp.Or(st.Began, st.Ready)
	if began.IsZero() || st.Status == events.StepIsPending || st.Status == events.StepIsBlocked {
		fmt.Fprintf(b, "Agent %s.\n", st.Agent)
		return
	}
	end := cmp.Or(st.Ended, r.tree.Ended, r.last)
	u := spentIn(st)
	fmt.Fprintf(b, "Agent %s, %s to %s (%s), %s, %s, %d tokens", st.Agent, moment(began), moment(end),
		end.Sub(began).Round(time.Second), view.Plural(len(st.Turns), "turn"), view.Plural(u.calls, "tool call"), u.tokens)
	if u.cost > 0 {
		fmt.Fprintf(b, ", %s", u.cost)
	}
	b.WriteString(".\n")
	for i, c := range st.Claim.Checks {
		if i == 0 {
			fmt.Fprintf(b, "\nChecks of claim %d of %d:\n\n", st.Claim.Number, st.Claim.Most)
		}
		fmt.Fprintf(b, "- %s: %s%s\n", c.State, cell(view.Clip(c.Name, maxTask)), parenthesis(view.Clip(c.Reason, maxTask)))
	}
	quote(b, "It failed:", st.Error)
	quote(b, "The agent's last words:", st.Output)
}

// left says what is not done, and how to go on with it.
func (r *Report) left(b *strings.Builder, phases []*view.StepNode) {
	b.WriteString("\n## What is left\n\n")
	last, open := "", 0
	for _, st := range phases {
		if st.Status == events.StepIsCompleted {
			last = events.StepCheckpoint(st.ID)
			continue
		}
		if open++; open <= maxPhases {
			fmt.Fprintf(b, "- %s: %s\n", st.ID, r.state(st))
		}
	}
	switch {
	case len(phases) == 0:
		b.WriteString("The run had no plan: nothing was begun.\n")
	case open == 0:
		b.WriteString("Nothing: all phases are done.\n")
	case r.tree.Result == nil:
		fmt.Fprintf(b, "\nThe run has not ended: inspan watch %s\n", r.tree.Run)
	case last != "":
		fmt.Fprintf(b, "\nTo go on after the last phase that is done: inspan fork %s --at %s\n", r.tree.Run, last)
	}
}

// quote writes words of others as an indented block.
func quote(b *strings.Builder, title, text string) {
	if text = strings.TrimSpace(text); text == "" {
		return
	}
	if runes := []rune(text); len(runes) > maxQuote {
		text = string(runes[:maxQuote]) + " [...]"
	}
	fmt.Fprintf(b, "\n%s\n\n", title)
	for line := range strings.Lines(text) {
		fmt.Fprintf(b, "    %s\n", printable(strings.TrimRight(line, "\r\n")))
	}
}

// printable leaves out what a terminal would act upon.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if c != '\t' && unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) {
			return -1
		}
		return c
	}, text)
}

// cell is a text of one line in which nothing is Markdown that a table or a list would end at.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "\r", " ", "<", "&lt;", "`", "'").Replace(printable(text))
}

func parenthesis(text string) string {
	if text == "" {
		return ""
	}
	return " (" + cell(text) + ")"
}

func moment(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 UTC") }
