package config

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/catalog"
	"github.com/inspan/inspan/internal/scaffold"
	"github.com/inspan/inspan/internal/scaffold/project"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/trust"
)

// initCommand is inspan init.
type initCommand struct {
	App            *app.App
	project, force bool
}

// Init makes inspan init.
func Init(a *app.App) *cobra.Command {
	c := &initCommand{App: a}
	cmd := &cobra.Command{
		Use: "init", Short: "Write a configuration file with the defaults, and an agent for the project in the directory",
		Long: `Writes ~/.config/inspan/config.yaml (or below XDG_CONFIG_HOME) with the defaults of agents and stations, and makes the folder
workspace beside it, which that file names as the root of the workspaces. With --project it writes .inspan/config.yaml in
the working directory and makes the folder agents there. What is there already is kept; --force writes the file again.

It looks what the directory is (go.mod, package.json and lock files, pyproject.toml, Cargo.toml, pom.xml, build.gradle, a Makefile with a
rule test), prints it, and writes agents/coder.prompt: an agent whose instructions name the commands that test and build the project, and
whose permissions allow them. Without --project it does so only where it knows the project and the folder agents has no agent.`,
		Example: "  inspan init\n  inspan init --project\n  inspan init --force --json", Args: app.Args(0),
		RunE: c.run,
	}
	cmd.Flags().BoolVar(&c.project, "project", false, "for the project in the working directory")
	cmd.Flags().BoolVar(&c.force, "force", false, "write the file again, also where it was changed")
	return cmd
}

func (a *initCommand) run(*cobra.Command, []string) error {
	path, folder, text := service.SystemFile(), "workspace", scaffold.Config()
	if a.project {
		path, folder, text = filepath.Join(service.ProjectFolder, service.ConfigFile), "agents", scaffold.Project()
	} else if path == "" {
		return app.Usage("there is no home folder to write to: set HOME or XDG_CONFIG_HOME")
	} else {
		folder = filepath.Join(filepath.Dir(path), folder)
	}
	file, err := app.WriteFile(path, text, a.force)
	if err != nil {
		return err
	}
	if a.project && file.State != "kept" {
		if a.App.Layers, err = service.Discover(); err != nil {
			return app.Usage("%w", err)
		}
		if err := a.App.Acceptance().AcceptOwn(trust.Settings, path, path); err != nil {
			return err
		}
	}
	dir := app.Written{Path: folder, State: "made"}
	if info, err := os.Stat(folder); err == nil && info.IsDir() {
		dir.State = "kept"
	} else if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make the folder: %w", err)
	}
	agent, known, err := a.agent()
	if err != nil {
		return err
	}
	return printInit(a.App, a.project, initialised{Config: file, Folder: dir, Agent: agent, Project: known})
}

// initialised is what inspan init did.
type initialised struct {
	Config app.Written `json:"config"`
	Folder app.Written `json:"folder"`
	// Agent is empty where none was to be written.
	Agent   *app.Written    `json:"agent,omitempty"`
	Project project.Project `json:"project"`
}

// coder is the name of the agent for a project.
const coder = "coder"

// agent writes the agent for the project in the working directory.
func (a *initCommand) agent() (*app.Written, project.Project, error) {
	files, err := project.Look(".")
	if err != nil {
		return nil, project.Project{}, err
	}
	known, dir := project.Detect(files), a.App.Lookup("INSPAN_AGENTS", "agents")
	others, err := filepath.Glob(filepath.Join(dir, "*.prompt"))
	path := filepath.Join(dir, coder+".prompt")
	if err != nil || !a.project && (len(known.Parts) == 0 || len(others) > 0 && !slices.Contains(others, path)) {
		return nil, known, err
	}
	text, _, err := scaffold.Agent{Name: coder, Template: "coding",
		Model:   cmp.Or(a.App.DefaultModel(), catalog.Providers()[0].Model),
		Sandbox: "auto", Project: known}.File()
	if err != nil {
		return nil, known, app.Usage("the agent %s: %w", coder, err)
	}
	written, err := app.WriteFile(path, text, a.force)
	if err != nil || written.State == "kept" {
		return &written, known, err
	}
	return &written, known, a.App.Acceptance().AcceptOwn(trust.Agents, dir, path)
}

func printInit(a *app.App, inProject bool, did initialised) error {
	if a.JSON {
		did.Project.Parts = app.OrEmpty(did.Project.Parts)
		return a.PrintJSON(did)
	}
	p, all := a.Paint(), []app.Written{did.Config, did.Folder}
	for _, line := range did.Project.Lines() {
		fmt.Fprintf(a.Out, "%s  %s\n", p.Green(fmt.Sprintf("%-8s", "found")), line)
	}
	if did.Agent != nil {
		all = append(all, *did.Agent)
	}
	for _, m := range all {
		state := p.Green(fmt.Sprintf("%-8s", m.State))
		if m.State == "kept" {
			state = p.Dim(fmt.Sprintf("%-8s", m.State))
		}
		fmt.Fprintf(a.Out, "%s  %s\n", state, m.Path)
	}
	if did.Config.State == "kept" {
		fmt.Fprintln(a.Out, p.Dim("The file was there and is as it was; --force writes the defaults over it."))
	}
	next := "inspan agent init NAME"
	switch {
	case did.Agent != nil:
		next = "inspan repl " + coder + `   or   inspan run ` + coder + ` "what to do"`
	case inProject:
		next += "   (writes agents/NAME.prompt)"
	}
	fmt.Fprintln(a.Out)
	a.Pairs([][2]string{{"next", p.Cyan(next)}, {"look", p.Cyan("inspan config explain")}})
	return nil
}
