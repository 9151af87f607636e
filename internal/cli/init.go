package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/scaffold"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
)

// made says what became of a file or a folder.
type made struct {
	Path string `json:"path"`
	// State is made, kept or replaced.
	State string `json:"state"`
}

func (a *app) initCmd() *cobra.Command {
	var project, force bool
	cmd := &cobra.Command{
		Use: "init", Short: "Write a configuration file with the defaults, and make the workspace folder",
		Long: `Writes ~/.config/inspan/config.yaml (or below XDG_CONFIG_HOME) with the defaults of agents and stations, and makes the folder
workspace beside it, which that file names as the root of the workspaces. With --project it writes .inspan/config.yaml in
the working directory and makes the folder agents there. What is there already is kept; --force writes the file again.`,
		Example: "  inspan init\n  inspan init --project\n  inspan init --force --json", Args: args(0),
		RunE: func(*cobra.Command, []string) error {
			path, folder, text := service.SystemFile(), "workspace", scaffold.Config()
			if project {
				path, folder, text = filepath.Join(service.ProjectFolder, service.ConfigFile), "agents", scaffold.Project()
			} else if path == "" {
				return usage("there is no home folder to write to: set HOME or XDG_CONFIG_HOME")
			} else {
				folder = filepath.Join(filepath.Dir(path), folder)
			}
			file, err := lay(path, text, force)
			if err != nil {
				return err
			}
			dir := made{Path: folder, State: "made"}
			if info, err := os.Stat(folder); err == nil && info.IsDir() {
				dir.State = "kept"
			} else if err := os.MkdirAll(folder, 0o755); err != nil {
				return fmt.Errorf("make the folder: %w", err)
			}
			return a.tellInit(project, file, dir)
		},
	}
	cmd.Flags().BoolVar(&project, "project", false, "for the project in the working directory")
	cmd.Flags().BoolVar(&force, "force", false, "write the file again, also where it was changed")
	return cmd
}

// lay writes a file that only its owner may change, unless it is there. It is whole or not there at all.
func lay(path string, text []byte, force bool) (made, error) {
	m := made{path, "made"}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return m, fmt.Errorf("make the folder: %w", err)
	}
	if _, err := os.Lstat(path); err == nil {
		if m.State = "kept"; !force {
			return m, nil
		}
		m.State = "replaced"
	} else if !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	aside, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return m, fmt.Errorf("write %s: %w", path, err)
	}
	defer func() { _ = os.Remove(aside.Name()) }() // it has moved where all went well
	_, err = aside.Write(text)
	if err = errors.Join(err, aside.Chmod(0o644), aside.Close()); err == nil {
		if m.State == "replaced" {
			err = os.Rename(aside.Name(), path)
		} else if err = os.Link(aside.Name(), path); errors.Is(err, fs.ErrExist) { // somebody was faster
			m.State, err = "kept", nil
		}
	}
	if err != nil {
		return m, fmt.Errorf("write %s: %w", path, err)
	}
	return m, nil
}

func (a *app) tellInit(project bool, file, dir made) error {
	if a.json {
		return a.printJSON(map[string]made{"config": file, "folder": dir})
	}
	p := a.paint()
	for _, m := range []made{file, dir} {
		state := p.green(fmt.Sprintf("%-8s", m.State))
		if m.State == "kept" {
			state = p.dim(fmt.Sprintf("%-8s", m.State))
		}
		fmt.Fprintf(a.out, "%s  %s\n", state, m.Path)
	}
	if file.State == "kept" {
		fmt.Fprintln(a.out, p.dim("The file was there and is as it was; --force writes the defaults over it."))
	}
	next := "inspan agent init NAME"
	if project {
		next += "   (writes agents/NAME.prompt)"
	}
	fmt.Fprintln(a.out)
	a.pairs([][2]string{{"next", p.cyan(next)}, {"look", p.cyan("inspan config explain")}})
	return nil
}

// agentFlags are those of inspan agent init.
type agentFlags struct {
	scaffold.Agent
	dir   string
	force bool
}

func (a *app) agentCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "agent", Short: "Make agent files", Example: "  inspan agent init reviewer --template security\n  inspan agent import .claude/agents/reviewer.md", Args: cobra.ArbitraryArgs, RunE: group}
	cmd.AddCommand(a.agentInitCmd(), a.agentImportCmd())
	return cmd
}

func (a *app) agentInitCmd() *cobra.Command {
	var f agentFlags
	var names []string
	var list strings.Builder
	for _, t := range scaffold.Templates() {
		names = append(names, t.Name)
		fmt.Fprintf(&list, "\n  %-9s %s\n            tools: %s", t.Name, t.Description, strings.Join(t.Tools, ", "))
	}
	cmd := &cobra.Command{
		Use: "init [NAME]", Short: "Write a new agent file from a template",
		Long: `Writes NAME.prompt from a template, checks that the file is sound and that this machine has what the agent needs, and says
how to run it. At a terminal it asks for what no flag says; elsewhere flags and defaults decide. The templates:
` + list.String(),
		Example: "  inspan agent init\n  inspan agent init fixer --template coding --model anthropic/claude-sonnet-4-20250514\n  inspan agent init oncall --template sre --sandbox bwrap --max-steps 30 --dir agents",
		Args:    between(0, 1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				f.Name = args[0]
			}
			if err := a.fillAgent(cmd, &f); err != nil {
				return err
			}
			return a.agentInit(cmd.Context(), f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.Template, "template", "coding", "one of "+strings.Join(names, ", "))
	fl.StringVar(&f.Sandbox, "sandbox", "auto", "where its tools run: auto, bwrap, host, or another that the station has")
	fl.StringVar(&f.Image, "image", "", "image of a sandbox that has one")
	fl.IntVar(&f.MaxSteps, "max-steps", 0, "most model turns of a step; the template's if not given")
	fl.StringVar(&f.Model, "model", a.set("MODEL", ""), "provider/name; one whose key is set if not given (MODEL)")
	fl.StringVar(&f.dir, "dir", a.set("INSPAN_AGENTS", "agents"), "folder to write it into (INSPAN_AGENTS)")
	fl.BoolVar(&f.force, "force", false, "write over a file of that name")
	for flag, words := range map[string][]string{"template": names, "sandbox": {"auto", "bwrap", "landlock", "host"}} {
		if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // the flag is defined above
		}
	}
	return cmd
}

// providers are models to begin with, and the variable of their key.
var providers = [][2]string{{"anthropic/claude-sonnet-4-20250514", "INSPAN_ANTHROPIC_API_KEY"}, {"openai/gpt-4o-mini", "INSPAN_OPENAI_API_KEY"}, {"gemini/gemini-2.5-flash", "INSPAN_GEMINI_API_KEY"}}

// hasKey reports whether a key is set somewhere.
func (a *app) hasKey(variable string) bool {
	for _, e := range a.layers.Explain() {
		if e.Variable == variable {
			return e.Origins[0].Layer != service.FromDefault
		}
	}
	return false
}

// fillAgent asks for what no flag says, or takes the defaults where there is nobody to ask.
func (a *app) fillAgent(cmd *cobra.Command, f *agentFlags) error {
	if f.Model == "" {
		f.Model = providers[0][0]
		for _, p := range slices.Backward(providers) {
			if a.hasKey(p[1]) {
				f.Model = p[0]
			}
		}
	}
	if !a.canAsk() {
		if f.Name == "" {
			return usage("which agent? inspan agent init NAME [--template coding]")
		}
		return nil
	}
	given := cmd.Flags().Changed
	t := func() scaffold.Template { t, _ := scaffold.Find(f.Template); return t } // an unknown one is told of when the file is made
	steps := ""
	type asked struct {
		what, hint string
		dst        *string
		skip       bool
		ok         func(string) error
	}
	for _, q := range []asked{
		{"Name", "letters, digits, _ and -", &f.Name, f.Name != "", func(s string) error { return events.CheckID("the name", s) }},
		{"Template", "coding, sre, security or data", &f.Template, given("template"), func(s string) error { _, err := scaffold.Find(s); return err }},
		{"Model", "provider/name", &f.Model, given("model"), nil},
		{"Sandbox", "auto, bwrap, landlock or host", &f.Sandbox, given("sandbox"), nil},
		{"Most turns of a step", "", &steps, given("max-steps"), func(s string) error { _, err := strconv.ParseUint(s, 10, 16); return err }},
	} {
		if q.skip {
			continue
		}
		if q.dst == &steps {
			steps = strconv.Itoa(t().MaxSteps)
		}
		if err := a.askFor(cmd.Context(), q.what, q.hint, q.dst, q.ok); err != nil {
			return err
		}
	}
	if steps != "" {
		f.MaxSteps, _ = strconv.Atoi(steps) // it was checked when it was typed
	}
	return nil
}

// askFor puts one question; an empty answer takes what dst holds.
func (a *app) askFor(ctx context.Context, what, hint string, dst *string, ok func(string) error) error {
	p := a.paint()
	for {
		line := p.bold(what)
		if hint != "" {
			line += p.dim(" (" + hint + ")")
		}
		if *dst != "" {
			line += " [" + p.cyan(*dst) + "]"
		}
		fmt.Fprint(a.out, line+": ")
		var answer string
		select {
		case <-ctx.Done():
			fmt.Fprintln(a.out)
			return exitWith(exitInterrupted, nil)
		case text, more := <-a.keys.next():
			if !more {
				fmt.Fprintln(a.out)
				return usage("the input has ended before the questions; flags answer them too: inspan agent init --help")
			}
			answer = strings.TrimSpace(string(text))
		}
		if answer == "" {
			answer = *dst
		}
		switch {
		case answer == "":
			fmt.Fprintln(a.out, p.yellow("  This needs an answer."))
		case ok != nil && ok(answer) != nil:
			fmt.Fprintln(a.out, p.yellow("  "+a.wrapped(harmless(ok(answer).Error()), 2)))
		default:
			*dst = answer
			return nil
		}
	}
}

func (a *app) agentInit(ctx context.Context, f agentFlags) error {
	if f.MaxSteps < 0 {
		return usage("--max-steps %d: want 1 or more", f.MaxSteps)
	}
	data, warnings, err := f.File()
	if err != nil {
		return usage("%w", err)
	}
	path := filepath.Join(f.dir, f.Name+".prompt")
	file, err := lay(path, data, f.force)
	if err != nil {
		return err
	}
	if file.State == "kept" {
		return usage("%s is there already; --force writes over it, another name makes another agent", path)
	}
	t, err := scaffold.Find(f.Template)
	if err != nil {
		return err
	}
	found := a.needs(ctx, t, f)
	next := a.howToRun(f)
	if a.json {
		var notes []string
		for _, w := range warnings {
			notes = append(notes, w.String())
		}
		return a.printJSON(map[string]any{"file": file, "template": t.Name, "tools": t.Tools, "model": f.Model, "warnings": orEmpty(notes), "needs": orEmpty(found), "next": next})
	}
	p := a.paint()
	for _, w := range warnings {
		fmt.Fprintf(a.err, "inspan: %s\n", harmless(w.String()))
	}
	fmt.Fprintf(a.out, "%s  %s\n", p.green(fmt.Sprintf("%-8s", file.State)), p.bold(path))
	a.pairs([][2]string{{"template", t.Name}, {"model", f.Model}, {"tools", strings.Join(t.Tools, ", ")}})
	fmt.Fprintln(a.out)
	a.findings(found)
	fmt.Fprintln(a.out)
	a.pairs([][2]string{{"run it", p.cyan(next[0])}, {"or keep a station", p.cyan(next[1])}, {"change it", p.cyan(path)}})
	return nil
}

// howToRun are the next commands: in one process, and with a station that stays.
func (a *app) howToRun(f agentFlags) []string {
	run := fmt.Sprintf("inspan run %s \"what to do\"", f.Name)
	if f.dir != "agents" && f.dir != a.set("INSPAN_AGENTS", "") {
		run += " --agents " + f.dir
	}
	return []string{run, "inspan up --agents " + f.dir}
}

// needs looks for what an agent needs: programs where its tools run, settings, and the key of its model.
func (a *app) needs(ctx context.Context, t scaffold.Template, f agentFlags) []finding {
	var found []finding
	provider, _, _ := strings.Cut(f.Model, "/")
	for _, p := range providers {
		if strings.HasPrefix(p[0], provider+"/") {
			name := strings.TrimPrefix(p[1], "INSPAN_")
			has := finding{What: "key of " + provider, OK: a.hasKey(p[1]), State: "set", Hint: "export " + name + "=..., or " + name + "_FILE=path"}
			if !has.OK {
				has.State = "not set"
			}
			found = append(found, has)
		}
	}
	box, err := a.emptyBox(ctx, f.Sandbox)
	state := "works"
	if err != nil {
		state = "does not work"
	}
	one := finding{What: "sandbox " + f.Sandbox, OK: err == nil, State: state}
	if err != nil {
		one.Hint = err.Error()
	} else {
		defer box.gone()
		if mode := string(box.Mode()); mode != f.Sandbox {
			one.State += ", here it is " + mode
		}
	}
	found = append(found, one)
	for _, n := range t.Needs {
		has := finding{What: n.What, State: "found", Hint: n.Why}
		switch {
		case n.Variable != "":
			has.OK, has.State = a.set(n.Variable, "") != "", "set"
			if !has.OK {
				has.State = n.Variable + " is not set"
			}
		case err != nil:
			has.State, has.Hint = "not looked for", "it is looked for where the tools run, and that sandbox does not work"
		default:
			exit, err := box.Exec(ctx, sandbox.Cmd{Args: n.Args})
			if has.OK = err == nil && exit.Code == 0; !has.OK {
				has.State = "not found in the sandbox"
			}
		}
		found = append(found, has)
	}
	return found
}
