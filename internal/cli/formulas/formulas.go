// Package formulas has the commands about formulas: list, show, check, graph, run. All but run only read files.
package formulas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/dispatch"
	"github.com/inspan/inspan/internal/core/plan"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/formula"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// command is what the commands about formulas share.
type command struct {
	App  *app.App
	dir  string
	vars []string
	form string
}

// Command makes inspan formula.
func Command(a *app.App) *cobra.Command {
	c := &command{App: a}
	cmd := &cobra.Command{
		Use: "formula", Aliases: []string{"formulas"}, Short: "Describe work as steps in a file, and run it",
		Long: `A formula is a file that describes work as steps: who does what, what needs what, and what decides that it is done.
It is NAME.formula.toml, or NAME.workflow.yaml in another dialect, in the folder formulas. docs/formulas.md has both.`,
		Example: "  inspan formula list\n  inspan formula show review\n  inspan formula run review --var path=internal/core",
		Args:    cobra.ArbitraryArgs, RunE: app.Group,
	}
	cmd.PersistentFlags().StringVar(&c.dir, "formulas", a.Lookup("INSPAN_FORMULAS", ""),
		"folder of formulas; formulas of this directory if not given (INSPAN_FORMULAS)")
	cmd.AddCommand(c.list(), c.show(), c.check(), c.graph(), c.run())
	for _, sub := range cmd.Commands() {
		if sub.Name() != "list" {
			sub.ValidArgsFunction = c.complete
		}
	}
	return cmd
}

// complete completes the names of formulas; one that is not known may be the path of a file.
func (c *command) complete(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	names, err := formula.Names(os.DirFS(cmp.Or(c.dir, app.ProjectFormulas)))
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return names, cobra.ShellCompDirectiveDefault
}

// place is where a formula is found: its folder, whether a person named that, and its name.
func (c *command) place(arg string) (dir string, named bool, name string) {
	if strings.ContainsRune(arg, filepath.Separator) || formula.NameOf(arg) != "" {
		return filepath.Dir(arg), true, cmp.Or(formula.NameOf(arg), filepath.Base(arg))
	}
	return cmp.Or(c.dir, app.ProjectFormulas), c.dir != "", arg
}

// load reads a formula that is only looked at.
func (c *command) load(arg string) (*formula.Formula, error) {
	dir, _, name := c.place(arg)
	return loadFrom(dir, dir, name)
}

// loadFrom reads a formula from a folder; shown is the folder that a person knows it by.
func loadFrom(dir, shown, name string) (*formula.Formula, error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, app.Usage("there is no folder %s: name one with --formulas, or give the path of a file", shown)
	}
	m, err := formula.Load(os.DirFS(dir), name)
	if err == nil {
		err = carried(m)
	}
	return m, refused(shown, err)
}

// carried refuses a formula with more steps than a station carries out in one run.
func carried(m *formula.Formula) error {
	all := m.Steps()
	if m.Inline || len(all) <= plan.MaxSteps {
		return nil
	}
	first := all[plan.MaxSteps]
	return &formula.Error{Code: formula.CodeLimit, File: first.File, Line: first.Line, Column: 1, Path: "steps",
		Message: fmt.Sprintf("the formula has %d steps, the limit of one run is %d", len(all), plan.MaxSteps),
		Hint:    "split it, or let one step work off a list"}
}

// refused is what is wrong with a formula, with the paths of its files.
func refused(dir string, err error) error {
	found := formula.Faults(err)
	if len(found) == 0 {
		return err
	}
	code := app.ExitUsage
	if len(found) == 1 && found[0].File == "" && found[0].Code == formula.CodeReference {
		code = app.ExitUnknown
	}
	var all []error
	for _, e := range found {
		e := *e
		if e.File != "" {
			e.File = filepath.Join(dir, e.File)
		}
		all = append(all, &e)
	}
	return app.Exit(code, errors.Join(all...))
}

// listed is one formula of a folder, for programs.
type listed struct {
	Name        string           `json:"name"`
	Type        string           `json:"type,omitempty"`
	Steps       int              `json:"steps,omitempty"`
	Vars        []formula.Var    `json:"vars,omitempty"`
	Description string           `json:"description,omitempty"`
	Digest      string           `json:"digest,omitempty"`
	Faults      []*formula.Error `json:"faults,omitempty"`
}

func (c *command) list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the formulas of a folder",
		Example: "  inspan formula list\n  inspan formula list --formulas ../other/formulas --json", Args: app.Args(0),
		RunE: func(*cobra.Command, []string) error {
			dir := cmp.Or(c.dir, app.ProjectFormulas)
			names, err := formula.Names(os.DirFS(dir))
			if errors.Is(err, fs.ErrNotExist) {
				return app.Usage("there is no folder %s: make it and write NAME%s, or name one with --formulas", dir,
					formula.TOML)
			}
			if err != nil {
				return err
			}
			l := app.Listing{Heads: []string{"NAME", "TYPE", "STEPS", "VARIABLES", "DESCRIPTION"},
				Empty: "The folder " + dir + " has no formulas."}
			for _, name := range names {
				row := listed{Name: name}
				m, err := formula.Load(os.DirFS(dir), name)
				if err != nil {
					row.Faults = formula.Faults(err)
					l.Add(name, row, name, "-", "-", "-", fmt.Sprintf("%s (inspan formula check %s)",
						view.Plural(len(row.Faults), "fault"), name))
					continue
				}
				row.Type, row.Steps, row.Vars, row.Description, row.Digest = m.Type, len(m.Steps()), m.Vars,
					m.Description(), m.Digest()
				var vars []string
				for _, v := range m.Vars {
					vars = append(vars, v.Name)
				}
				l.Add(name, row, name, m.Type, fmt.Sprint(row.Steps), strings.Join(vars, ", "),
					view.Clip(row.Description, 80))
			}
			return c.App.Print(l)
		},
	}
}

// shownFormula is a formula for programs.
type shownFormula struct {
	listed
	Agent   string         `json:"agent,omitempty"`
	Session string         `json:"session_id,omitempty"`
	Inline  bool           `json:"inline,omitempty"`
	Files   []formula.File `json:"files"`
	Plan    []formula.Step `json:"plan"`
}

func (c *command) show() *cobra.Command {
	var whole bool
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show a formula: its variables, steps and files",
		Long: `Shows a formula with all that it extends and is composed of. With --plan or --var it is compiled, and what a task
carries to the station is printed as JSON.`,
		Example: `  inspan formula show review
  inspan formula show review --var path=internal/core
  inspan formula show ./review.formula.toml --json`,
		Args: app.Args(1),
		RunE: func(_ *cobra.Command, args []string) error {
			m, err := c.load(args[0])
			if err != nil {
				return err
			}
			if whole || len(c.vars) > 0 {
				compiled, err := c.compile(m, args[0])
				if err != nil {
					return err
				}
				return c.App.PrintJSON(compiled)
			}
			if c.App.JSON {
				return c.App.PrintJSON(shownFormula{listed{m.Name, m.Type, len(m.Steps()), m.Vars, m.Description(),
					m.Digest(), nil}, m.Agent, m.Session,
					m.Inline, m.Files, m.Steps()})
			}
			c.print(m)
			return nil
		},
	}
	cmd.Flags().BoolVar(&whole, "plan", false, "print the compiled plan")
	cmd.Flags().StringArrayVar(&c.vars, "var", nil, "name=value for a variable; may be repeated")
	return cmd
}

func (c *command) compile(m *formula.Formula, arg string) (*formula.Compiled, error) {
	vars, err := dispatch.Variables(c.vars)
	if err != nil {
		return nil, err
	}
	dir, _, _ := c.place(arg)
	compiled, err := m.Compile(vars)
	return compiled, refused(dir, err)
}

func (c *command) print(m *formula.Formula) {
	p := c.App.Paint()
	files := make([]string, len(m.Files))
	for i, f := range m.Files {
		files[i] = f.Name
	}
	kind := m.Type
	if m.Inline {
		kind += ", a checklist for one agent"
	}
	c.App.Pairs([][2]string{{"Formula", p.Bold(m.Name) + "  " + p.Dim(kind)}, {"About", view.Clip(m.Description(), 400)},
		{"Agent", m.Agent}, {"Session", m.Session}, {"Files", strings.Join(slices.Compact(files), ", ")}, {"Digest",
			m.Digest()}})
	if len(m.Vars) > 0 {
		fmt.Fprintln(c.App.Out)
		var rows [][]string
		for _, v := range m.Vars {
			given := "optional"
			if v.Required {
				given = "required"
			}
			if v.Default != nil {
				given = "default " + view.Clip(*v.Default, 40)
			}
			rows = append(rows, []string{v.Name, v.Type, given, view.Clip(v.Description, 80)})
		}
		c.App.Table([]string{"VARIABLE", "TYPE", "VALUE", "ABOUT"}, rows)
	}
	fmt.Fprintln(c.App.Out)
	c.steps(m)
}

// steps prints a table of the steps.
func (c *command) steps(m *formula.Formula) {
	var rows [][]string
	for _, s := range m.Steps() {
		var notes []string
		if s.Critical {
			notes = append(notes, "critical")
		}
		if s.Child != "" {
			notes = append(notes, "child "+s.Child)
		}
		if s.Checks > 0 {
			notes = append(notes, view.Plural(s.Checks, "check"))
		}
		for _, flow := range s.Flow {
			notes = append(notes, view.Clip(flow, 50))
		}
		rows = append(rows, []string{fmt.Sprint(s.Wave), s.ID, s.Agent, strings.Join(s.Needs, ", "), strings.Join(notes,
			", "), view.Clip(s.Title, 60)})
	}
	c.App.Table([]string{"WAVE", "STEP", "AGENT", "NEEDS", "", "TITLE"}, rows)
}

// checked is the result of a check, for programs.
type checked struct {
	Name   string           `json:"name"`
	OK     bool             `json:"ok"`
	Faults []*formula.Error `json:"faults,omitempty"`
}

func (c *command) check() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check [NAME...]", Short: "Check formulas: all of a folder, or those that are named",
		Long: `Reads formulas with all that they are made of, and says what is wrong with each: file, line and column, and what to
do. It fails where one is wrong, so that it can stand in a check before a commit. With --var the values are checked, too.`,
		Example: "  inspan formula check\n  inspan formula check review --var path=internal/core\n  inspan formula check --json",
		Args:    cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				var err error
				if args, err = formula.Names(os.DirFS(cmp.Or(c.dir, app.ProjectFormulas))); err != nil {
					return app.Usage("there are no formulas: %w", err)
				}
			}
			bad, rows := 0, []checked{}
			for _, arg := range args {
				m, err := c.load(arg)
				if err == nil && len(c.vars) > 0 {
					_, err = c.compile(m, arg)
				}
				if found := formula.Faults(err); err != nil && len(found) == 0 {
					return err
				}
				rows = append(rows, checked{arg, err == nil, formula.Faults(err)})
				if err != nil {
					bad++
				}
				switch {
				case c.App.JSON:
				case err != nil:
					fmt.Fprintln(c.App.Out, err)
				default:
					fmt.Fprintf(c.App.Out, "%s: %s\n", arg, view.Plural(len(m.Steps()), "step"))
				}
			}
			if c.App.JSON {
				if err := c.App.PrintJSON(rows); err != nil {
					return err
				}
			}
			if bad > 0 {
				return app.Exit(app.ExitFailed, fmt.Errorf("%d of %s cannot be used", bad, view.Plural(len(rows),
					"formula")))
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&c.vars, "var", nil, "name=value for a variable; may be repeated")
	return cmd
}

func (c *command) graph() *cobra.Command {
	cmd := &cobra.Command{
		Use: "graph NAME", Short: "Show which steps need which",
		Long:    "Shows the steps in an order in which they can be worked off. Those of one wave can run at the same time.",
		Example: "  inspan formula graph review\n  inspan formula graph review --form dot | dot -Tsvg > review.svg",
		Args:    app.Args(1),
		RunE: func(_ *cobra.Command, args []string) error {
			m, err := c.load(args[0])
			switch {
			case err != nil:
				return err
			case c.App.JSON:
				return c.App.PrintJSON(m.Steps())
			case c.form == "dot":
				fmt.Fprint(c.App.Out, m.DOT())
				return nil
			case c.form != "text":
				return app.Usage("--form %s: want text or dot", c.form)
			}
			c.steps(m)
			return nil
		},
	}
	cmd.Flags().StringVar(&c.form, "form", "text", "text or dot, the language of Graphviz")
	return cmd
}

func (c *command) run() *cobra.Command {
	var runner *dispatch.Runner
	var agent string
	cmd := &cobra.Command{
		Use: "run NAME", Short: "Run a formula and watch it",
		Long: `Compiles a formula and dispatches it as a task with that plan, as inspan run does, whose flags mean the same here.
The name of the formula and the digest of its files are recorded with the run; inspan inspect shows them.

The formulas of a directory are accepted like its agents (inspan trust), unless --formulas or a path names them. A value
of --var is put into texts for agents as it is; it never becomes part of a command.`,
		Example: `  inspan formula run review --var path=internal/core
  inspan formula run ./release.workflow.yaml --var version=1.2.0 --yes
  inspan formula run review --agent coder --detach`,
		Args: app.Args(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.dispatch(cmd.Context(), runner, args[0], agent)
		},
	}
	runner = dispatch.NewRunner(c.App, cmd)
	cmd.Flags().StringVar(&agent, "agent", "", "agent of the steps that name none; the formula's if not given")
	return cmd
}

func (c *command) dispatch(ctx context.Context, runner *dispatch.Runner, arg, agent string) error {
	vars, err := runner.Vars()
	if err != nil {
		return err
	}
	compiled, err := c.accepted(ctx, arg, vars, runner.Trust())
	if err != nil {
		return err
	}
	if agent = cmp.Or(agent, compiled.Agent); agent == "" && compiled.Plan != nil {
		for _, s := range compiled.Plan.Steps {
			agent = cmp.Or(agent, s.Agent)
		}
	}
	if agent == "" {
		return app.Usage("the formula %s names no agent: give one with --agent, or write [defaults] agent = \"NAME\"",
			compiled.Formula.Name)
	}
	return runner.Run(ctx, agent, func(t *events.Task) { fill(t, compiled) })
}

// accepted compiles a formula that is to be carried out. Those of a directory are accepted like its agents, unless a
// person named the folder.
func (c *command) accepted(ctx context.Context, arg string, vars map[string]string,
	once bool) (*formula.Compiled, error) {
	dir, named, name := c.place(arg)
	shown := dir
	if _, err := loadFrom(dir, shown, name); err != nil { // nothing is asked about a formula that is wrong
		return nil, err
	}
	if !named {
		var err error
		if dir, err = c.App.Acceptance().Formulas(ctx, dir, once); err != nil {
			return nil, err
		}
	}
	m, err := loadFrom(dir, shown, name)
	if err != nil {
		return nil, err
	}
	compiled, err := m.Compile(vars)
	return compiled, refused(shown, err)
}

// Accepted compiles a formula for another command: arg is a name in the folder dir, which may be empty, or a path.
func Accepted(ctx context.Context, a *app.App, dir, arg string, vars map[string]string) (*formula.Compiled, error) {
	c := &command{App: a, dir: cmp.Or(dir, a.Lookup("INSPAN_FORMULAS", ""))}
	return c.accepted(ctx, arg, vars, false)
}

// fill completes a task with a plan. What flags say wins over the file.
func fill(t *events.Task, c *formula.Compiled) {
	t.Task, t.Plan, t.Formula, t.Variables = c.Task, c.Plan, &c.Formula, c.Variables
	t.ID = cmp.Or(t.ID, client.NewID())
	t.Session, t.WorkflowRun = cmp.Or(t.Session, c.Session), cmp.Or(t.WorkflowRun, t.ID)
	if g := c.Git; g != nil && t.Repo == "" {
		t.Repo, t.Ref, t.Branch = g.Repo, cmp.Or(t.Ref, g.Ref), cmp.Or(t.Branch, g.Branch)
	}
}
