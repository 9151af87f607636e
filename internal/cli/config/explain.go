// Package config has inspan config and inspan init: which settings are in force and from where, and changes of the
// files.
package config

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/internal/service"
)

// Command makes inspan config and the commands below it.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Show what is configured and where each value comes from, and change it",
		Long: `A setting is taken from the first of these that says it: a flag, a variable, the file .inspan/config.yaml of the project
(in the working directory or above it), the file ~/.config/inspan/config.yaml (or below XDG_CONFIG_HOME), what is
built in. INSPAN_CONFIG names one file to read in place of both; "none" reads none. docs/config.md lists all settings.

What stands below harness is for agents that do not say otherwise in their own files. The file of a project may not
set what decides whom to trust, where keys are sent or what is watched.`,
		Example: "  inspan config explain\n  inspan config explain harness.max_steps\n  inspan config set harness.max_steps 40\n  inspan config path",
		Args:    cobra.ArbitraryArgs, RunE: app.Group,
	}
	cmd.AddCommand(explainCmd(a), setCmd(a), unsetCmd(a), pathCmd(a))
	return cmd
}

// explained is a setting as explain shows it.
type explained struct {
	Key      string `json:"key,omitempty"`
	Variable string `json:"variable,omitempty"`
	Value    string `json:"value"`
	// Source is the layer that the value is from, Where the place in it.
	Source string `json:"source"`
	Where  string `json:"where,omitempty"`
	Doc    string `json:"doc"`
	// Inert settings are accepted and nothing acts on them yet.
	Inert bool `json:"no_effect_yet,omitempty"`
	// Overridden are the lower layers, the next one first.
	Overridden []service.Origin `json:"overridden"`
}

// explainCommand is inspan config explain.
type explainCommand struct {
	App     *app.App
	changed bool
}

func explainCmd(a *app.App) *cobra.Command {
	c := &explainCommand{App: a}
	cmd := &cobra.Command{
		Use: "explain [KEY]", Short: "Print each effective value and its source: flag, variable, file and line, or built-in",
		Long: `Prints what is in force here and now, with the flags of this command line. KEY is a setting such as harness.max_steps, a
variable such as INSPAN_SANDBOX, or a part of the tree such as nats; for a single setting the layers below are shown as
well. Secrets are shown as ***.`,
		Example: "  inspan config explain\n  inspan config explain --changed\n  inspan config explain harness.timeout\n  inspan config explain nats --server nats://10.0.0.1:4222 --json",
		Args:    app.ArgsBetween(0, 1),
		RunE:    c.run,
	}
	cmd.Flags().BoolVar(&c.changed, "changed", false, "only what is not built in")
	return cmd
}

func (a *explainCommand) run(cmd *cobra.Command, args []string) error {
	all := explainSettings(a.App, cmd)
	a.App.WarnOfFiles()
	if len(args) == 1 {
		var err error
		if all, err = pick(all, args[0]); err != nil {
			return err
		}
	}
	if a.changed {
		all = slices.DeleteFunc(all, func(e explained) bool { return e.Source == service.FromDefault })
	}
	if a.App.JSON {
		return a.App.PrintJSON(app.OrEmpty(all))
	}
	if len(args) == 1 && len(all) == 1 {
		explainOne(a.App, all[0])
		return nil
	}
	explainAll(a.App, all)
	return nil
}

// flagsOf are the flags of every command that stand for a setting.
var flagsOf = map[string]string{"INSPAN_NATS_URL": "server", "INSPAN_NATS_CREDS": "creds", "INSPAN_STATION": "station",
	"INSPAN_LOG_LEVEL": "log", "INSPAN_NATS_ENABLED": "local"}

func explainSettings(a *app.App, cmd *cobra.Command) []explained {
	effective, around := a.Layers.Explain(), surroundings(cmd.Context(), a)
	out := make([]explained, 0, len(effective))
	for _, e := range effective {
		origins := e.Origins
		if f := cmd.Flags().Lookup(flagsOf[e.Variable]); f != nil && f.Changed {
			value := f.Value.String()
			if f.Name == "local" { // the flag says the opposite of the variable
				value = strconv.FormatBool(!a.Local)
			}
			origins = append([]service.Origin{{Layer: service.FromFlag, Where: "--" + f.Name, Value: value}}, origins...)
		}
		if o := around[e.Variable]; o.Value != "" && origins[0].Layer != service.FromFlag &&
			(a.ContextFlag != "" || origins[0].Layer != service.FromEnvironment) {
			origins = append([]service.Origin{o}, origins...)
		}
		for i := range origins {
			if strings.Contains(origins[i].Value, "@") {
				origins[i].Value = app.HideSecrets(origins[i].Value) // an address may hold a password
			}
		}
		out = append(out, explained{Key: e.Key, Variable: e.Variable, Value: origins[0].Value, Source: origins[0].Layer,
			Where: origins[0].Where,
			Doc:   e.Doc, Inert: e.Inert, Overridden: origins[1:]})
	}
	return out
}

// surroundings are what a context or the station of this project says of how a station is reached.
func surroundings(ctx context.Context, a *app.App) map[string]service.Origin {
	out := map[string]service.Origin{}
	b := *a
	if err := b.UseContext(); err != nil {
		name, _ := b.ContextName()
		return map[string]service.Origin{"INSPAN_NATS_URL": {Layer: "context", Where: name, Value: err.Error()}}
	}
	layer, where := "context", b.Context.Name
	if b.Routed.Project != "" {
		layer = b.Routed.Layer()
	}
	if where == "" {
		if !b.Locate(ctx, b.Folder) {
			return out
		}
		layer, where = "station of this project", b.Record.Store
	}
	for variable, now := range map[string][2]string{"INSPAN_NATS_URL": {b.Server, ""},
		"INSPAN_NATS_CREDS": {b.Creds, a.Creds},
		"INSPAN_STATION":    {b.Station, a.Station}} {
		if now[0] != now[1] {
			out[variable] = service.Origin{Layer: layer, Where: where, Value: now[0]}
		}
	}
	return out
}

// pick finds a setting by its key or variable, or those below a part of the tree.
func pick(all []explained, key string) ([]explained, error) {
	var known []string
	var out []explained
	for _, e := range all {
		if e.Key == key || e.Variable == key {
			return []explained{e}, nil
		}
		if strings.HasPrefix(e.Key, key+".") {
			out = append(out, e)
		}
		known = append(known, e.Key, e.Variable)
	}
	if len(out) > 0 {
		return out, nil
	}
	if near := didyoumean.Word(key, known); near != "" {
		return nil, app.Usage("there is no setting %q; did you mean %q? inspan config explain lists all", key, near)
	}
	return nil, app.Usage("there is no setting %q; inspan config explain lists all", key)
}

func explainAll(a *app.App, all []explained) {
	p := a.Paint()
	if len(all) == 0 {
		fmt.Fprintln(a.Out, "Everything is as it is built in.")
		return
	}
	var rows [][]string
	width, _ := a.Term.Size()
	room := min(40, max(14, width-70)) // the key and the source are what is looked for
	for _, e := range all {
		key, value, source := cmp.Or(e.Key, e.Variable), terminal.Fit(terminal.Sanitize(cmp.Or(e.Value, "-")), room),
			sourceText(e.Source, e.Where)
		if at := strings.LastIndexByte(e.Where, ':'); a.Term.TTY && at >= 0 { // the files are named below the table
			source = e.Source + e.Where[at:]
		}
		if e.Source == service.FromDefault {
			key, value, source = p.Dim(key), p.Dim(value), p.Dim(source)
		}
		rows = append(rows, []string{key, value, source})
	}
	a.Table([]string{"SETTING", "VALUE", "FROM"}, rows)
	if files := a.Layers.Files(); a.Term.TTY && len(files) > 0 {
		fmt.Fprintln(a.Out)
		a.Pairs([][2]string{{service.FromProject, sourceText("", files[service.FromProject])},
			{service.FromSystem, sourceText("", files[service.FromSystem])}})
	}
}

func explainOne(a *app.App, e explained) {
	p := a.Paint()
	note := e.Doc
	if e.Inert {
		note += p.Yellow(" (nothing acts on it yet)")
	}
	rows := [][2]string{{"setting", p.Bold(e.Key)}, {"variable", e.Variable},
		{"value", p.Bold(terminal.Sanitize(cmp.Or(e.Value, "-")))}, {"from", sourceText(e.Source, e.Where)}, {"what", note}}
	head := "instead of"
	for _, o := range e.Overridden {
		rows = append(rows, [2]string{head, terminal.Sanitize(cmp.Or(o.Value, "-")) + p.Dim("  "+sourceText(o.Layer,
			o.Where))})
		head = ""
	}
	a.Pairs(rows)
}

// sourceText is a source in words, with a home folder cut short.
func sourceText(layer, where string) string {
	if home, err := os.UserHomeDir(); err == nil && home != "/" {
		if rest, ok := strings.CutPrefix(where, home+string(filepath.Separator)); ok {
			where = "~/" + rest
		}
	}
	switch layer {
	case "":
		return where
	case service.FromDefault:
		return layer
	case service.FromFlag, service.FromEnvironment:
		return where
	}
	return where + " (" + layer + ")"
}

// pathCommand is inspan config path.
type pathCommand struct {
	App *app.App
}

func pathCmd(a *app.App) *cobra.Command {
	c := &pathCommand{App: a}
	return &cobra.Command{
		Use: "path", Short: "Print which configuration files are read, and where others would be",
		Example: "  inspan config path\n  inspan config path --json", Args: app.Args(0),
		RunE: c.run,
	}
}

func (a *pathCommand) run(*cobra.Command, []string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	type one struct {
		Layer string `json:"layer"`
		Path  string `json:"path"`
		Read  bool   `json:"read"`
	}
	read := a.App.Layers.Files()
	at := []one{{service.FromProject, cmp.Or(service.ProjectFile(dir), filepath.Join(dir, service.ProjectFolder,
		service.ConfigFile)), false}, {service.FromSystem, service.SystemFile(), false}}
	if path := os.Getenv(service.ConfigVariable); path != "" && path != "none" {
		at = []one{{service.FromSystem, path, false}}
	}
	var rows [][2]string
	for i := range at {
		at[i].Read = read[at[i].Layer] == at[i].Path
		state := a.App.Paint().Dim("  (not there)")
		if at[i].Read {
			state = ""
		} else if _, err := os.Stat(at[i].Path); err == nil {
			state = a.App.Paint().Yellow("  (not read)")
		}
		rows = append(rows, [2]string{at[i].Layer, at[i].Path + state})
	}
	if a.App.JSON {
		return a.App.PrintJSON(at)
	}
	a.App.Pairs(rows)
	return nil
}
