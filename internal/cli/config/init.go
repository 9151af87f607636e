package config

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/scaffold"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/trust"
)

// initCommand is inspan init.
type initCommand struct {
	*app.App
	project, force bool
}

// Init makes inspan init.
func Init(a *app.App) *cobra.Command {
	c := &initCommand{App: a}
	cmd := &cobra.Command{
		Use: "init", Short: "Write a configuration file with the defaults, and make the workspace folder",
		Long: `Writes ~/.config/inspan/config.yaml (or below XDG_CONFIG_HOME) with the defaults of agents and stations, and makes the folder
workspace beside it, which that file names as the root of the workspaces. With --project it writes .inspan/config.yaml in
the working directory and makes the folder agents there. What is there already is kept; --force writes the file again.`,
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
		if a.Layers, err = service.Discover(); err != nil {
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
	return printInit(a.App, a.project, file, dir)
}

func printInit(a *app.App, project bool, file, dir app.Written) error {
	if a.JSON {
		return a.PrintJSON(map[string]app.Written{"config": file, "folder": dir})
	}
	p := a.Paint()
	for _, m := range []app.Written{file, dir} {
		state := p.Green(fmt.Sprintf("%-8s", m.State))
		if m.State == "kept" {
			state = p.Dim(fmt.Sprintf("%-8s", m.State))
		}
		fmt.Fprintf(a.Out, "%s  %s\n", state, m.Path)
	}
	if file.State == "kept" {
		fmt.Fprintln(a.Out, p.Dim("The file was there and is as it was; --force writes the defaults over it."))
	}
	next := "inspan agent init NAME"
	if project {
		next += "   (writes agents/NAME.prompt)"
	}
	fmt.Fprintln(a.Out)
	a.Pairs([][2]string{{"next", p.Cyan(next)}, {"look", p.Cyan("inspan config explain")}})
	return nil
}
