package prompt

import (
	_ "embed"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/inspan/inspan/internal/template"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Input is all that a prompt is made of.
type Input struct {
	State run.State
	Step  *run.Step
	Agent events.Agent
	// System and User are the agent's own template, filled; User holds the work (see Brief).
	System, User string
	// Tools estimates the tokens of what the model is told of its tools, Earlier those of the conversation that the run
	// began with, which stands before all entries.
	Tools, Earlier int
}

// Prompt is what a model is shown.
type Prompt struct {
	System  string
	Entries []Entry
}

// Entry is one thing in a conversation: either a text of the user's side, or a turn of the model with its results.
type Entry struct {
	Text     string
	Exchange *Exchange
}

// Assemble is the one way to a prompt, for all agents and all steps (PRMT-7): equal inputs give equal prompts (PRMT-8).
// Once the history of the step was compacted, the role's text is the lighter one (PRMT-6).
func Assemble(in Input) Prompt { return new(Talk).Assemble(in) }

// through is the last turn that a summary stands for.
func through(st *run.Step) int {
	if st.Compacted == nil {
		return 0
	}
	return st.Compacted.Through
}

// transcript is what people said before the first turn that is shown, also in the middle of those that a summary stands
// for.
func transcript(in Input) []Entry {
	var out []Entry
	for _, m := range in.State.Messages {
		if m.Step == in.Step.ID && m.After <= through(in.Step) {
			out = append(out, Entry{Text: m.Text})
		}
	}
	return out
}

// cropResults shortens the results of one turn to most tokens together; 0 leaves them.
func cropResults(results []Result, most int) {
	size := 0
	for _, r := range results {
		size += len(r.Output)
	}
	if most == 0 || size <= most {
		return
	}
	size = 0
	for _, r := range results {
		size += Tokens(r.Output)
	}
	if size <= most {
		return
	}
	for i := range results {
		results[i].Output = Crop(results[i].Output, max(16, most/len(results)))
	}
}

// opening is the first message: the work as it was given, and what is known of it. What the harness itself wants stands
// in the system prompt, so that nothing is added to what a person typed.
func opening(in Input) []Entry {
	w := work{Work: in.User}
	if c := in.Step.Compacted; c != nil {
		w.Summary = c.Summary
	} else if c := in.State.Created; c != nil {
		w.Handoff, w.Mail = c.Handoff, sorted(c.Mail)
	}
	return []Entry{{Text: fill(opened, w)}}
}

// work is what the template of the first message shows.
type work struct {
	Work, Handoff, Summary string
	Mail                   []events.Letter
}

// sorted puts the most urgent letters first; those of one priority stay in their order (PRMT-4).
func sorted(mail []events.Letter) []events.Letter {
	out := slices.Clone(mail)
	for i := range out {
		if out[i].Priority == "" {
			out[i].Priority = "normal"
		}
	}
	rank := func(l events.Letter) int { return slices.Index(events.Priorities(), l.Priority) }
	sort.SliceStable(out, func(i, j int) bool { return rank(out[i]) < rank(out[j]) })
	return out
}

// roleText is the system prompt: the agent's own text, who it is, how it works, what its operators say, and where it
// is.
func roleText(in Input, light bool) string {
	t := full
	if light {
		t = short
	}
	r := role{System: strings.TrimSpace(in.System), Name: in.Agent.Name, Description: in.Agent.Description,
		Tools:  strings.Join(named(in.Agent.Tools), ", "),
		Skills: in.Agent.Skills, Memory: in.Agent.Memory}
	for _, name := range in.Agent.Delegates {
		r.Delegates = append(r.Delegates, events.Skill{Name: name, Description: in.State.Agents[name].Description})
	}
	if c := in.State.Created; c != nil {
		r.Workspace, r.Context, r.Session, r.Attended = c.Workspace, c.Context, c.SessionPrompt, c.Attended
	}
	return fill(t, r) + Output(in.Agent.OutputSchema)
}

// named are the tools that a system prompt lists: a program of others does not call the tool that gives it its prompt.
func named(tools []string) []string {
	return slices.DeleteFunc(slices.Clone(tools), func(name string) bool { return name == events.ToolRuntime })
}

// role is what the templates of the system prompt show.
type role struct {
	System, Name, Description, Tools, Context, Session, Workspace string
	Attended                                                      bool
	Skills                                                        []events.Skill
	// Delegates are the agents that work can be given to.
	Delegates []events.Skill
	Memory    []events.Document
}

// The texts of what the harness itself says: the system prompt at length and in short, and the first message.
var (
	//go:embed full.tmpl
	fullText string
	//go:embed light.tmpl
	shortText string
	//go:embed work.tmpl
	workText string

	full, short, opened = template.New(fullText), template.New(shortText), template.New(workText)
)

func fill(t template.Template, data any) string { return strings.TrimSpace(t.Fill(data)) }

func bytesOut(n int) string { return fmt.Sprintf("%d bytes", n) }
