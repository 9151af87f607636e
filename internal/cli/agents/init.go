package agents

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/doctor/report"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/catalog"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/scaffold"
	"github.com/inspan/inspan/internal/trust"
	"github.com/inspan/inspan/pkg/events"
)

// initCommand is inspan agent init.
type initCommand struct {
	App   *app.App
	flags agentFlags
}

func initCmd(a *app.App) *cobra.Command {
	c := &initCommand{App: a}
	var names []string
	var list strings.Builder
	for _, t := range scaffold.Templates() {
		names = append(names, t.Name)
		fmt.Fprintf(&list, "\n  %-9s %s\n            tools: %s", t.Name, t.Description, strings.Join(t.Tools, ", "))
	}
	cmd := &cobra.Command{
		Use: "init [NAME]", Short: "Write a new agent file from a template, or copy one that ships",
		Long: `Writes NAME.prompt from a template, or with --from as a copy of an agent of the catalogue (inspan agent catalog), checks that the file is sound and that this machine has what the agent needs, and says
how to run it. At a terminal it asks for what no flag says; elsewhere flags and defaults decide. The templates:
` + list.String(),
		Example: "  inspan agent init\n  inspan agent init fixer --template coding --model anthropic/claude-sonnet-5-5\n  inspan agent init --from reviewer\n  inspan agent init oncall --template sre --sandbox bwrap --max-steps 30 --dir agents",
		Args:    app.ArgsBetween(0, 1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: c.run,
	}
	fl := cmd.Flags()
	fl.StringVar(&c.flags.Template, "template", "coding", "one of "+strings.Join(names, ", "))
	fl.StringVar(&c.flags.From, "from", "",
		"agent of the catalogue to copy, in place of a template; NAME is its name if not given")
	fl.StringVar(&c.flags.Sandbox, "sandbox", "auto",
		"where its tools run: auto, bwrap, host, or another that the station has")
	fl.StringVar(&c.flags.Image, "image", "", "image of a sandbox that has one")
	fl.IntVar(&c.flags.MaxSteps, "max-steps", 0, "most model turns of a step; the template's if not given")
	fl.StringVar(&c.flags.Model, "model", a.Lookup("MODEL", ""),
		"provider/name; one whose key is set if not given (MODEL)")
	fl.StringVar(&c.flags.dir, "dir", a.Lookup("INSPAN_AGENTS", "agents"), "folder to write it into (INSPAN_AGENTS)")
	fl.BoolVar(&c.flags.force, "force", false, "write over a file of that name")
	for flag, words := range map[string][]string{"template": names, "sandbox": {"auto", "bwrap", "landlock", "host"}} {
		if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words,
			cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // the flag is defined above
		}
	}
	return cmd
}

func (a *initCommand) run(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		a.flags.Name = args[0]
	}
	if a.flags.From != "" {
		for _, flag := range []string{"template", "image", "max-steps"} {
			if a.App.Given(flag) {
				return app.Usage("--from copies an agent whole, so --%s means nothing: leave one of them out", flag)
			}
		}
		a.flags.Name = cmp.Or(a.flags.Name, a.flags.From)
	}
	if err := fillAgent(a.App, cmd, &a.flags); err != nil {
		return err
	}
	return writeAgent(cmd.Context(), a.App, a.flags)
}

// agentFlags are those of inspan agent init.
type agentFlags struct {
	scaffold.Agent
	dir   string
	force bool
}

// Files makes inspan agent and the commands below it.
func Files(a *app.App) *cobra.Command {
	cmd := &cobra.Command{Use: "agent", Short: "Make agent files, and register them at a station",
		Example: "  inspan agent init reviewer --template security\n  inspan agent import .claude/agents/reviewer.md\n  inspan agent push --dry-run",
		Args:    cobra.ArbitraryArgs, RunE: app.Group}
	cmd.AddCommand(initCmd(a), importCmd(a))
	return cmd
}

// fillAgent asks for what no flag says, or takes the defaults where there is no person to ask.
func fillAgent(a *app.App, cmd *cobra.Command, f *agentFlags) error {
	f.Model = cmp.Or(f.Model, a.DefaultModel(), catalog.Providers()[0].Model)
	if !a.CanAsk() {
		if f.Name == "" {
			return app.Usage("which agent? inspan agent init NAME [--template coding]")
		}
		return nil
	}
	given := cmd.Flags().Changed
	// an unknown one is reported when the file is made
	t := func() scaffold.Template { t, _ := scaffold.Find(f.Template); return t }
	steps := ""
	type asked struct {
		what, hint string
		dst        *string
		skip       bool
		ok         func(string) error
	}
	for _, q := range []asked{
		{"Name", "letters, digits, _ and -", &f.Name, f.Name != "", func(s string) error {
			return events.CheckID("the name",
				s)
		}},
		{"Template", "coding, sre, security or data", &f.Template, given("template") || f.From != "", func(s string) error { _, err := scaffold.Find(s); return err }},
		{"Model", "provider/name", &f.Model, given("model"), nil},
		{"Sandbox", "auto, bwrap, landlock or host", &f.Sandbox, given("sandbox"), nil},
		{"Most turns of a step", "", &steps, given("max-steps") || f.From != "", func(s string) error { _, err := strconv.ParseUint(s, 10, 16); return err }},
	} {
		if q.skip {
			continue
		}
		if q.dst == &steps {
			steps = strconv.Itoa(t().MaxSteps)
		}
		if err := askFor(cmd.Context(), a, q.what, q.hint, q.dst, q.ok); err != nil {
			return err
		}
	}
	if steps != "" {
		f.MaxSteps, _ = strconv.Atoi(steps) // it was checked when it was typed
	}
	return nil
}

// askFor puts one question; an empty answer takes what dst holds.
func askFor(ctx context.Context, a *app.App, what, hint string, dst *string, ok func(string) error) error {
	p := a.Paint()
	for {
		line := p.Bold(what)
		if hint != "" {
			line += p.Dim(" (" + hint + ")")
		}
		if *dst != "" {
			line += " [" + p.Cyan(*dst) + "]"
		}
		fmt.Fprint(a.Out, line+": ")
		var answer string
		select {
		case <-ctx.Done():
			fmt.Fprintln(a.Out)
			return app.Exit(app.ExitInterrupted, nil)
		case text, more := <-a.Keys.Next():
			if !more {
				fmt.Fprintln(a.Out)
				return app.Usage("the input has ended before the questions; flags answer them too: inspan agent init --help")
			}
			answer = strings.TrimSpace(string(text))
		}
		if answer == "" {
			answer = *dst
		}
		switch {
		case answer == "":
			fmt.Fprintln(a.Out, p.Yellow("  This needs an answer."))
		case ok != nil && ok(answer) != nil:
			fmt.Fprintln(a.Out, p.Yellow("  "+a.Wrapped(terminal.Sanitize(ok(answer).Error()), 2)))
		default:
			*dst = answer
			return nil
		}
	}
}

func writeAgent(ctx context.Context, a *app.App, f agentFlags) error {
	if f.MaxSteps < 0 {
		return app.Usage("--max-steps %d: want 1 or more", f.MaxSteps)
	}
	data, warnings, err := f.File()
	if err != nil {
		return app.Usage("%w", err)
	}
	path := filepath.Join(f.dir, f.Name+".prompt")
	file, err := app.WriteFile(path, data, f.force)
	if err != nil {
		return err
	}
	if file.State == "kept" {
		return app.Usage("%s is there already; --force writes over it, another name makes another agent", path)
	}
	t, err := f.Base()
	if err != nil {
		return err
	}
	if err := a.Acceptance().AcceptOwn(trust.Agents, f.dir, path); err != nil {
		return err
	}
	found := requirementsOf(ctx, a, t, f)
	next := howToRun(a, f)
	if a.JSON {
		var notes []string
		for _, w := range warnings {
			notes = append(notes, w.String())
		}
		return a.PrintJSON(map[string]any{"file": file, "template": t.Name, "from": f.From, "tools": t.Tools,
			"model":    f.Model,
			"warnings": app.OrEmpty(notes), "needs": app.OrEmpty(found), "next": next})
	}
	p := a.Paint()
	for _, w := range warnings {
		fmt.Fprintf(a.Err, "inspan: %s\n", terminal.Sanitize(w.String()))
	}
	fmt.Fprintf(a.Out, "%s  %s\n", p.Green(fmt.Sprintf("%-8s", file.State)), p.Bold(path))
	source := "template"
	if f.From != "" {
		source = "copy of"
	}
	a.Pairs([][2]string{{source, t.Name}, {"model", f.Model}, {"tools", strings.Join(t.Tools, ", ")}})
	fmt.Fprintln(a.Out)
	report.Print(a, found)
	fmt.Fprintln(a.Out)
	a.Pairs([][2]string{{"run it", p.Cyan(next[0])}, {"or keep a station", p.Cyan(next[1])}, {"change it", p.Cyan(path)}})
	return nil
}

// howToRun are the next commands: in one process, and with a station that stays.
func howToRun(a *app.App, f agentFlags) []string {
	run := fmt.Sprintf("inspan run %s \"what to do\"", f.Name)
	if f.dir != "agents" && f.dir != a.Lookup("INSPAN_AGENTS", "") {
		run += " --agents " + f.dir
	}
	return []string{run, "inspan up --agents " + f.dir}
}

// requirementsOf looks for what an agent needs: programs where its tools run, settings, and the key of its model.
func requirementsOf(ctx context.Context, a *app.App, t scaffold.Template, f agentFlags) []report.Finding {
	var found []report.Finding
	if p, ok := catalog.Find(f.Model); ok {
		has := report.Finding{What: "key of " + p.Name, OK: a.IsSet(p.Variable), State: "set",
			Hint: "inspan login " + p.Name + ", or export " + p.Standard() + "=..., or " + p.Standard() + "_FILE=path"}
		if !has.OK {
			has.State = "not set"
		}
		found = append(found, has)
	}
	sb, err := openDefault(ctx, a, f.Sandbox)
	state := "works"
	if err != nil {
		state = "does not work"
	}
	one := report.Finding{What: "sandbox " + f.Sandbox, OK: err == nil, State: state}
	if err != nil {
		one.Hint = err.Error()
	} else {
		defer sb.remove()
		if mode := string(sb.Mode()); mode != f.Sandbox {
			one.State += ", here it is " + mode
		}
	}
	found = append(found, one)
	for _, n := range t.Needs {
		has := report.Finding{What: n.What, State: "found", Hint: n.Why}
		switch {
		case n.Variable != "":
			has.OK, has.State = a.Lookup(n.Variable, "") != "", "set"
			if !has.OK {
				has.State = n.Variable + " is not set"
			}
		case err != nil:
			has.State, has.Hint = "not looked for", "it is looked for where the tools run, and that sandbox does not work"
		default:
			exit, err := sb.Exec(ctx, sandbox.Cmd{Args: n.Args})
			if has.OK = err == nil && exit.Code == 0; !has.OK {
				has.State = "not found in the sandbox"
			}
		}
		found = append(found, has)
	}
	return found
}
