package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// completeWait is how long a shell waits for the station when a person presses the tab key.
const completeWait = time.Second

// completion completes words of a command line with what the station has. Without a station it names nothing: a person
// who presses the tab key reads no error.
type completion struct{ App *App }

// source lists what a word of a command line can be; args are the words before it.
type source func(ctx context.Context, c *client.Client, args []string) ([]string, error)

// arguments are the sources of positional arguments, by their names in the usage line of a command.
var arguments = map[string]source{
	"RUN": runNames, "GATE|RUN[/GATE]": gateNames, "AGENT": agentNames, "SESSION": sessionNames,
	"ARTIFACT": artifactNames, "SCOPE": scopeNames, "BRANCH": branchNames, "RUN/GATE|GATE": grantNames, "NO": letterNames,
	"SCHEDULE": scheduleNames, "ITEM": itemNames, "HARNESS": harnessNames,
}

// flagSources are the sources of flags, by their names.
var flagSources = map[string]source{"session": sessionNames, "at": checkpointNames, "model": modelNames,
	"step": stepNames}

// flagWords are the values of flags that are the same on every station.
var flagWords = map[string][]string{
	"missed":   {string(events.MissedSkip), string(events.MissedOne), string(events.MissedAll)},
	"overlap":  {string(events.OverlapSkip), string(events.OverlapQueue), string(events.OverlapAllow)},
	"autonomy": {"1", "2", "3", "4", "5"}, "log": {"debug", "info", "warn", "error"},
	"sandbox":       {"auto", "bwrap", "landlock", "host", "docker", "gvisor", "wasm", "microvm", "e2b", "kubernetes"},
	"output":        Forms(),
	"collaboration": {string(events.Sequential), string(events.Parallel)}, "always": {"run", "session"},
}

// Complete gives the commands of a tree shell completion of what the station has: runs, gates, agents, sessions,
// checkpoints, artifacts, models and more.
func (a *App) Complete(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		a.Complete(sub)
	}
	c := completion{a}
	if words := argumentsOf(cmd); cmd.ValidArgsFunction == nil && c.knows(words) {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return c.argument(cmd, words, args, typed)
		}
	}
	for name, words := range flagWords {
		c.flag(cmd, name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
	for name, list := range flagSources {
		c.flag(cmd, name, c.ask(list))
	}
	c.flag(cmd, "context", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return Contexts(), cobra.ShellCompDirectiveNoFileComp
	})
	if cmd.Name() == "runs" { // elsewhere --agent is a file
		c.flag(cmd, "agent", c.ask(agentNames))
	}
}

// argumentsOf are the names of the positional arguments of a command, as its usage line has them. One that may be
// repeated ends with "...".
func argumentsOf(cmd *cobra.Command) []string {
	usage, _, _ := strings.Cut(cmd.Use, " | ")
	words := strings.Fields(usage)[1:]
	for i, w := range words {
		if strings.HasPrefix(w, "[") && strings.HasSuffix(w, "]") {
			words[i] = w[1 : len(w)-1]
		}
	}
	if p := cmd.Parent(); len(words) > 0 && words[0] == "NAME" && p != nil && p.Name() == "session" {
		words[0] = "SESSION"
	}
	return words
}

// knows reports whether one of the arguments can be completed.
func (c completion) knows(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool {
		w = strings.TrimSuffix(w, "...")
		return arguments[w] != nil || w == "LEVEL" || w == "KEY"
	})
}

// argument completes the next argument of a command.
func (c completion) argument(cmd *cobra.Command, words, args []string, typed string) ([]string,
	cobra.ShellCompDirective) {
	if len(words) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	at := min(len(args), len(words)-1)
	word, repeated := strings.CutSuffix(words[at], "...")
	switch {
	case len(args) > at && !repeated:
		return nil, cobra.ShellCompDirectiveNoFileComp
	case word == "FILE" || word == "DIR":
		return nil, cobra.ShellCompDirectiveDefault
	case word == "LEVEL":
		return flagWords["autonomy"], cobra.ShellCompDirectiveNoFileComp
	case word == "KEY":
		return begins(c.keys(), typed), cobra.ShellCompDirectiveNoFileComp
	case arguments[word] == nil:
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.ask(arguments[word])(cmd, args, typed)
}

// keys are the settings.
func (c completion) keys() (out []string) {
	for _, e := range c.App.Layers.Explain() {
		if e.Key != "" {
			out = append(out, cobra.CompletionWithDesc(e.Key, view.Clip(e.Doc, 60)))
		}
	}
	return out
}

// flag completes the values of a flag, where a command has it and does not complete it itself.
func (c completion) flag(cmd *cobra.Command, name string, complete cobra.CompletionFunc) {
	if cmd.LocalFlags().Lookup(name) == nil {
		return
	}
	if _, there := cmd.GetFlagCompletionFunc(name); there {
		return
	}
	if err := cmd.RegisterFlagCompletionFunc(name, complete); err != nil {
		panic(err) // the flag was looked up above
	}
}

// ask completes with what the station has. The newest stands first.
func (c completion) ask(list source) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		c.App.Cmd, c.App.Err = cmd, io.Discard // flags before the word say which station is meant
		if c.App.UseContext() != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return begins(c.names(cmd.Context(), args, list), typed), cobra.ShellCompDirectiveNoFileComp |
			cobra.ShellCompDirectiveKeepOrder
	}
}

// names asks the station, for completeWait at most.
func (c completion) names(ctx context.Context, args []string, list source) []string {
	ctx, cancel := context.WithTimeout(ctx, completeWait)
	defer cancel()
	come := make(chan []string, 1) // a station that does not answer is left alone: the program ends
	go func() {
		conn, err := c.App.Connect(ctx)
		if err != nil {
			come <- nil
			return
		}
		defer conn.Close()
		all, err := list(ctx, conn, args)
		if err != nil {
			all = nil
		}
		come <- all
	}()
	select {
	case all := <-come:
		return all
	case <-ctx.Done():
		return nil
	}
}

// begins are the words that begin as typed; a word may have a description behind a tab.
func begins(all []string, typed string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(w string) bool { return !strings.HasPrefix(w, typed) })
}

func runNames(ctx context.Context, c *client.Client, _ []string) ([]string, error) {
	all, err := c.Runs().List(ctx)
	names := []string{}
	if id, ok := newest(all); ok {
		names = append(names, cobra.CompletionWithDesc(LastRun, "the newest run, "+id))
	}
	for _, r := range all {
		names = append(names, cobra.CompletionWithDesc(r.HarnessID, describe(r)))
	}
	return names, err
}

func describe(r run.Info) string {
	return view.Clip(fmt.Sprintf("%s, %s, %s", r.Status, r.AgentName, r.CreatedAt.Local().Format("Jan 2 15:04")), 60)
}

// gateNames are the gates that wait, by their own ids, by those of their runs, and by both.
func gateNames(ctx context.Context, c *client.Client, _ []string) ([]string, error) {
	all, err := c.Gates().List(ctx)
	var gates, runs, both []string
	for _, w := range all {
		what := view.Clip(w.Gate.Description, 80)
		gates = append(gates, cobra.CompletionWithDesc(w.Gate.ID, view.Clip(w.Run.HarnessID+": "+w.Gate.Description, 80)))
		runs = append(runs, cobra.CompletionWithDesc(w.Run.HarnessID, what))
		both = append(both, cobra.CompletionWithDesc(w.Run.HarnessID+"/"+w.Gate.ID, what))
	}
	return slices.Concat(gates, runs, both), err
}

func agentNames(ctx context.Context, c *client.Client, _ []string) ([]string, error) {
	all, err := c.Agents(ctx)
	names := []string{}
	for _, a := range all {
		names = append(names, cobra.CompletionWithDesc(a.Name, view.Clip(a.Description, 60)))
	}
	return names, err
}

// modelNames are the models of the registered agents.
func modelNames(ctx context.Context, c *client.Client, _ []string) ([]string, error) {
	all, err := c.Agents(ctx)
	names := []string{}
	for _, a := range all {
		for one := range strings.SplitSeq(a.Model, ",") {
			names = append(names, cobra.CompletionWithDesc(strings.TrimSpace(one), "of agent "+a.Name))
		}
	}
	slices.Sort(names)
	model := func(s string) string { m, _, _ := strings.Cut(s, "\t"); return m }
	return slices.CompactFunc(names, func(a, b string) bool { return model(a) == model(b) }), err
}

func sessionNames(ctx context.Context, c *client.Client, _ []string) ([]string, error) {
	all, err := c.Sessions().List(ctx)
	names := []string{}
	for _, s := range all {
		names = append(names, cobra.CompletionWithDesc(s.ID, fmt.Sprintf("%s, used %s ago", view.Plural(s.Runs, "run"),
			Age(s.UsedAt))))
	}
	return names, err
}

func scheduleNames(ctx context.Context, c *client.Client, _ []string) ([]string, error) {
	all, err := client.NewSchedules(c).List(ctx)
	names := []string{}
	for _, s := range all {
		names = append(names, cobra.CompletionWithDesc(s.ID, s.Spec.When()))
	}
	return names, err
}

func itemNames(ctx context.Context, c *client.Client, _ []string) ([]string, error) {
	all, err := client.NewWorkItems(c).List(ctx)
	names := []string{}
	for _, w := range all {
		if w.Status != events.WorkIsClosed {
			names = append(names, cobra.CompletionWithDesc(w.ID, view.Clip(w.Spec.Title, 60)))
		}
	}
	return names, err
}

func harnessNames(ctx context.Context, c *client.Client, _ []string) ([]string, error) {
	all, err := client.NewHarnesses(c).List(ctx)
	names := []string{}
	for _, h := range all {
		names = append(names, cobra.CompletionWithDesc(h.ID, fmt.Sprintf("%s, %s", h.Name, view.Plural(h.Steps, "step"))))
	}
	return names, err
}

// checkpointNames are those of the run that the command line names.
func checkpointNames(ctx context.Context, c *client.Client, args []string) ([]string, error) {
	run, err := firstRun(ctx, c, args)
	if err != nil {
		return nil, err
	}
	all, err := c.Runs().Checkpoints(ctx, run)
	names := []string{}
	for _, k := range slices.Backward(all) {
		names = append(names, cobra.CompletionWithDesc(k.Name, fmt.Sprintf("after event %d, %s ago", k.Sequence, Age(k.At))))
	}
	return names, err
}

// stepNames are the steps of the run that the command line names.
func stepNames(ctx context.Context, c *client.Client, args []string) ([]string, error) {
	id, err := firstRun(ctx, c, args)
	if err != nil {
		return nil, err
	}
	s, err := c.State(ctx, id)
	names := []string{}
	if s.Plan != nil {
		for _, st := range s.Plan.Steps {
			names = append(names, cobra.CompletionWithDesc(st.ID, view.Clip(st.Description, 60)))
		}
	}
	return names, err
}

func artifactNames(ctx context.Context, c *client.Client, args []string) ([]string, error) {
	run, err := firstRun(ctx, c, args)
	if err != nil {
		return nil, err
	}
	all, err := c.Artifacts().List(ctx, run)
	names := []string{}
	for _, f := range all {
		names = append(names, cobra.CompletionWithDesc(cmp.Or(f.Path, f.ID), view.Clip(f.Type+", "+view.Bytes(f.Size), 80)))
	}
	return names, err
}

// firstRun is the run that the first argument names.
func firstRun(ctx context.Context, c *client.Client, args []string) (string, error) {
	if len(args) == 0 {
		return "", client.ErrNotFound
	}
	return ResolveRun(ctx, c, args[0])
}

func scopeNames(ctx context.Context, c *client.Client, _ []string) ([]string, error) {
	all, err := c.Branches().List(ctx, "")
	names := []string{}
	for _, b := range all {
		names = append(names, b.Scope)
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

func branchNames(ctx context.Context, c *client.Client, args []string) ([]string, error) {
	all, err := c.Branches().List(ctx, args[0])
	names := []string{}
	for _, b := range all {
		names = append(names, b.Branch)
	}
	return names, err
}

func grantNames(ctx context.Context, c *client.Client, _ []string) ([]string, error) {
	all, err := c.Grants().List(ctx)
	names := []string{}
	for _, g := range all {
		names = append(names, cobra.CompletionWithDesc(g.Run+"/"+g.ID, view.Clip(g.Tool+" "+g.Pattern, 80)))
	}
	return names, err
}

func letterNames(ctx context.Context, c *client.Client, _ []string) ([]string, error) {
	all, err := c.DeadLetters().List(ctx)
	names := []string{}
	for _, l := range slices.Backward(all) {
		names = append(names, cobra.CompletionWithDesc(fmt.Sprint(l.Seq), view.Clip(l.Code+": "+l.Reason, 80)))
	}
	return names, err
}
