package config

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/trust"
)

// configEdit are the flags of config set and config unset.
type configEdit struct{ project, system bool }

func (e *configEdit) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&e.project, "project", false, "in the file of the project in the working directory or above it")
	cmd.Flags().BoolVar(&e.system, "system", false, "in the file of this user, as without a flag")
}

func (e *configEdit) layer() string {
	if e.project {
		return service.FromProject
	}
	return service.FromSystem
}

// setCommand is inspan config set.
type setCommand struct {
	App  *app.App
	edit configEdit
}

func setCmd(a *app.App) *cobra.Command {
	c := &setCommand{App: a}
	cmd := &cobra.Command{
		Use: "set KEY VALUE", Short: "Write a setting into a configuration file, and print what is in force then",
		Long: `Writes one setting into ~/.config/inspan/config.yaml, with --project into the .inspan/config.yaml of the project; the file is
made where there is none. The rest of it stays as it is, comments too. What is written must be right: an unknown key or a
value that is not permitted changes nothing. A list is written with commas between its items. Paths are relative to the
folder of the user's file, or to the project.

Secrets are refused, because a command line is kept and shown: set the variable, or name a file with it.`,
		Example: "  inspan config set harness.max_steps 40\n  inspan config set harness.sandbox.mode bwrap\n  inspan config set agents ./agents --project\n  inspan config set commands.env GOFLAGS,CGO_ENABLED --json",
		Args:    app.Args(2),
		RunE:    c.run,
	}
	c.edit.flags(cmd)
	return cmd
}

func (a *setCommand) run(cmd *cobra.Command, args []string) error {
	s, err := settable(args[0], args[1])
	if err != nil {
		return err
	}
	return changeFile(a.App, cmd, a.edit, agentfile.Edit{Key: s.Key, Value: args[1]})
}

// unsetCommand is inspan config unset.
type unsetCommand struct {
	App  *app.App
	edit configEdit
}

func unsetCmd(a *app.App) *cobra.Command {
	c := &unsetCommand{App: a}
	cmd := &cobra.Command{
		Use: "unset KEY", Short: "Take a setting out of a configuration file, and print what is in force then",
		Long: `Takes one setting, or a part of the tree such as harness.budget, out of ~/.config/inspan/config.yaml, with --project out of the
.inspan/config.yaml of the project. Comments stay. A key that is not known can be taken out too.`,
		Example: "  inspan config unset harness.max_steps\n  inspan config unset agents --project",
		Args:    app.Args(1),
		RunE:    c.run,
	}
	c.edit.flags(cmd)
	return cmd
}

func (a *unsetCommand) run(cmd *cobra.Command, args []string) error {
	key := args[0]
	if s, ok := setting(key); ok && s.Key != "" {
		key = s.Key
	}
	return changeFile(a.App, cmd, a.edit, agentfile.Edit{Key: key, Unset: true})
}

// setting finds one by its key or its variable.
func setting(name string) (service.Setting, bool) {
	table := service.Table()
	i := slices.IndexFunc(table, func(s service.Setting) bool { return s.Key == name || s.Variable == name })
	if i < 0 || name == "" {
		return service.Setting{}, false
	}
	return table[i], true
}

// settable finds a setting that a command may write with that value.
func settable(name, value string) (service.Setting, error) {
	s, ok := setting(name)
	if !ok {
		return s, noSetting(name)
	}
	advice := fmt.Sprintf("set %s, or have %s_FILE name a file with it; or write it into the file by hand, and: chmod 600",
		s.Variable, s.Variable)
	switch {
	case s.Key == "":
		return s, app.Usage("%s has no place in a file: set the variable", s.Variable)
	case s.Secret:
		return s, app.Usage("%s is a secret, and a command line is kept and shown: %s", s.Key, advice)
	case strings.Contains(value, "://") && app.HideSecrets(value) != value:
		return s, app.Usage("%s: the address holds a name or a password, and a command line is kept and shown: leave it out and set the variables for it, such as INSPAN_NATS_USER and INSPAN_NATS_PASSWORD", s.Key)
	}
	return s, nil
}

// noSetting names the setting that may have been meant.
func noSetting(name string) error {
	var all []explained
	for _, s := range service.Table() {
		all = append(all, explained{Key: s.Key, Variable: s.Variable})
	}
	below, err := pick(all, name)
	if err == nil {
		return app.Usage("%s is a part of the tree: name one setting, such as %s", name, below[0].Key)
	}
	return err
}

// changeFile makes a change and prints what is in force then.
func changeFile(a *app.App, cmd *cobra.Command, to configEdit, e agentfile.Edit) error {
	if to.project && to.system {
		return app.Usage("--project and --system are two files: name one of them")
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	path, err := service.FileOf(to.layer(), dir)
	if err != nil {
		return app.Usage("%w", err)
	}
	ours := to.layer() == service.FromProject && a.Acceptance().Accepted(trust.Settings, path)
	changed, warnings, err := service.Change(to.layer(), path, e)
	for _, w := range warnings {
		if strings.HasPrefix(w.Path, e.Key) || w.Path == "" {
			fmt.Fprintf(a.Err, "inspan: %s\n", terminal.Sanitize(w.String()))
		}
	}
	if err != nil {
		return app.Usage("nothing was changed: %w", err)
	}
	if a.Layers, err = service.Discover(); err != nil {
		fmt.Fprintf(a.Err, "inspan: the settings in force are unknown, because the configuration files cannot be read: %s\n",
			terminal.Sanitize(err.Error()))
	}
	if ours && changed {
		if err := a.Acceptance().AcceptOwn(trust.Settings, path, path); err != nil {
			return err
		}
	}
	now, err := pick(explainSettings(a, cmd), e.Key)
	if err != nil && !changed {
		return err // neither in the file nor known at all
	}
	if a.JSON {
		return a.PrintJSON(struct {
			Changed  bool        `json:"changed"`
			File     string      `json:"file"`
			Layer    string      `json:"layer"`
			Settings []explained `json:"settings"`
		}{changed, path, to.layer(), app.OrEmpty(now)})
	}
	printChange(a, changed, path, to.layer(), now)
	return nil
}

func printChange(a *app.App, changed bool, path, layer string, now []explained) {
	p, word := a.Paint(), "changed"
	if !changed {
		word = "as it was"
	}
	fmt.Fprintf(a.Out, "%s %s\n", p.Green(word), sourceText("", path))
	for _, e := range now {
		if len(now) > 1 && e.Source == service.FromDefault {
			continue
		}
		fmt.Fprintf(a.Out, "%s is %s  %s\n", e.Key, p.Bold(terminal.Sanitize(cmp.Or(e.Value, "-"))),
			p.Dim(sourceText(e.Source, e.Where)))
		if takesPrecedence(e.Source, layer) {
			fmt.Fprintf(a.Out, "%s\n", p.Yellow("That comes before the file: inspan config explain "+e.Key))
		}
	}
}

// takesPrecedence reports whether a source is asked before a layer.
func takesPrecedence(source, layer string) bool {
	order := []string{service.FromFlag, service.FromEnvironment, service.FromProject, service.FromSystem,
		service.FromDefault}
	return slices.Index(order, source) < slices.Index(order, layer)
}
