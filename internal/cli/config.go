package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/internal/service"
)

// set is what the environment or a configuration file says of a variable, else fallback. Flags take it as their default,
// so that they win.
func (s *settings) set(variable, fallback string) string { return s.layers.Lookup(variable, fallback) }

// config is the configuration of a station in this process, before flags.
func (s *settings) config() (service.Config, error) {
	cfg, err := s.layers.Config()
	if err != nil {
		return cfg, usage("%w", err)
	}
	return cfg, nil
}

// warnOfFiles tells what is strange about configuration files.
func (a *app) warnOfFiles() {
	for _, w := range a.layers.Warnings {
		fmt.Fprintf(a.err, "inspan: %s\n", harmless(w.String()))
	}
}

// sound stops a command where a configuration file is wrong, unless it does not need any.
func (a *app) sound(cmd *cobra.Command) error {
	path := strings.TrimPrefix(cmd.CommandPath(), "inspan ")
	first, _, _ := strings.Cut(path, " ")
	if a.badFiles == nil || slices.Contains([]string{"version", "help", "completion", "init", "keygen", "__complete", "__completeNoDesc"}, first) || slices.Contains([]string{"config path", "config set", "config unset"}, path) {
		return nil
	}
	return usage("%w", a.badFiles)
}

func (a *app) configCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Show what is configured and where each value comes from, and change it",
		Long: `A setting is taken from the first of these that says it: a flag, a variable, the file .inspan/config.yaml of the project
(in the working directory or above it), the file ~/.config/inspan/config.yaml (or below XDG_CONFIG_HOME), what is
built in. INSPAN_CONFIG names one file to read in place of both; "none" reads none. docs/config.md lists all settings.

What stands below harness is for agents that do not say otherwise in their own files. The file of a project may not
set what decides whom to trust, where keys are sent or what is watched.`,
		Example: "  inspan config explain\n  inspan config explain harness.max_steps\n  inspan config set harness.max_steps 40\n  inspan config path",
		Args:    cobra.ArbitraryArgs, RunE: group,
	}
	cmd.AddCommand(a.explainCmd(), a.configSetCmd(), a.configUnsetCmd(), a.configPathCmd())
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

func (a *app) explainCmd() *cobra.Command {
	var changed bool
	cmd := &cobra.Command{
		Use: "explain [KEY]", Short: "Print each effective value and its source: flag, variable, file and line, or built-in",
		Long: `Prints what is in force here and now, with the flags of this command line. KEY is a setting such as harness.max_steps, a
variable such as INSPAN_SANDBOX, or a part of the tree such as nats; for a single setting the layers below are shown as
well. Secrets are shown as ***.`,
		Example: "  inspan config explain\n  inspan config explain --changed\n  inspan config explain harness.timeout\n  inspan config explain nats --server nats://10.0.0.1:4222 --json",
		Args:    between(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all := a.explain(cmd)
			a.warnOfFiles()
			if len(args) == 1 {
				var err error
				if all, err = pick(all, args[0]); err != nil {
					return err
				}
			}
			if changed {
				all = slices.DeleteFunc(all, func(e explained) bool { return e.Source == service.FromDefault })
			}
			if a.json {
				return a.printJSON(orEmpty(all))
			}
			if len(args) == 1 && len(all) == 1 {
				a.explainOne(all[0])
				return nil
			}
			a.explainAll(all)
			return nil
		},
	}
	cmd.Flags().BoolVar(&changed, "changed", false, "only what is not built in")
	return cmd
}

// flagsOf are the flags of every command that stand for a setting.
var flagsOf = map[string]string{"INSPAN_NATS_URL": "server", "INSPAN_NATS_CREDS": "creds", "INSPAN_STATION": "station", "INSPAN_LOG_LEVEL": "log", "INSPAN_NATS_ENABLED": "local"}

func (a *app) explain(cmd *cobra.Command) []explained {
	effective := a.layers.Explain()
	out := make([]explained, 0, len(effective))
	for _, e := range effective {
		origins := e.Origins
		if f := cmd.Flags().Lookup(flagsOf[e.Variable]); f != nil && f.Changed {
			value := f.Value.String()
			if f.Name == "local" { // the flag says the opposite of the variable
				value = strconv.FormatBool(!a.alone)
			}
			origins = append([]service.Origin{{Layer: service.FromFlag, Where: "--" + f.Name, Value: value}}, origins...)
		}
		for i := range origins {
			if strings.Contains(origins[i].Value, "@") {
				origins[i].Value = shown(origins[i].Value) // an address may hold a password
			}
		}
		out = append(out, explained{Key: e.Key, Variable: e.Variable, Value: origins[0].Value, Source: origins[0].Layer, Where: origins[0].Where,
			Doc: e.Doc, Inert: e.Inert, Overridden: origins[1:]})
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
		return nil, usage("there is no setting %q; did you mean %q? inspan config explain lists all", key, near)
	}
	return nil, usage("there is no setting %q; inspan config explain lists all", key)
}

func (a *app) explainAll(all []explained) {
	p := a.paint()
	if len(all) == 0 {
		fmt.Fprintln(a.out, "Everything is as it is built in.")
		return
	}
	var rows [][]string
	width, _ := a.term.size()
	room := min(40, max(14, width-70)) // the key and the source are what is looked for
	for _, e := range all {
		key, value, source := cmp.Or(e.Key, e.Variable), fit(harmless(cmp.Or(e.Value, "-")), room), whence(e.Source, e.Where)
		if at := strings.LastIndexByte(e.Where, ':'); a.term.tty && at >= 0 { // the files are named below the table
			source = e.Source + e.Where[at:]
		}
		if e.Source == service.FromDefault {
			key, value, source = p.dim(key), p.dim(value), p.dim(source)
		}
		rows = append(rows, []string{key, value, source})
	}
	a.table([]string{"SETTING", "VALUE", "FROM"}, rows)
	if files := a.layers.Files(); a.term.tty && len(files) > 0 {
		fmt.Fprintln(a.out)
		a.pairs([][2]string{{service.FromProject, whence("", files[service.FromProject])}, {service.FromSystem, whence("", files[service.FromSystem])}})
	}
}

func (a *app) explainOne(e explained) {
	p := a.paint()
	note := e.Doc
	if e.Inert {
		note += p.yellow(" (nothing acts on it yet)")
	}
	rows := [][2]string{{"setting", p.bold(e.Key)}, {"variable", e.Variable}, {"value", p.bold(harmless(cmp.Or(e.Value, "-")))}, {"from", whence(e.Source, e.Where)}, {"what", note}}
	head := "instead of"
	for _, o := range e.Overridden {
		rows = append(rows, [2]string{head, harmless(cmp.Or(o.Value, "-")) + p.dim("  "+whence(o.Layer, o.Where))})
		head = ""
	}
	a.pairs(rows)
}

// whence is a source in words, with a home folder cut short.
func whence(layer, where string) string {
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

func (a *app) configPathCmd() *cobra.Command {
	return &cobra.Command{
		Use: "path", Short: "Print which configuration files are read, and where others would be",
		Example: "  inspan config path\n  inspan config path --json", Args: args(0),
		RunE: func(*cobra.Command, []string) error {
			dir, err := os.Getwd()
			if err != nil {
				return err
			}
			type one struct {
				Layer string `json:"layer"`
				Path  string `json:"path"`
				Read  bool   `json:"read"`
			}
			read := a.layers.Files()
			at := []one{{service.FromProject, cmp.Or(service.ProjectFile(dir), filepath.Join(dir, service.ProjectFolder, service.ConfigFile)), false}, {service.FromSystem, service.SystemFile(), false}}
			if path := os.Getenv(service.ConfigVariable); path != "" && path != "none" {
				at = []one{{service.FromSystem, path, false}}
			}
			var rows [][2]string
			for i := range at {
				at[i].Read = read[at[i].Layer] == at[i].Path
				state := a.paint().dim("  (not there)")
				if at[i].Read {
					state = ""
				} else if _, err := os.Stat(at[i].Path); err == nil {
					state = a.paint().yellow("  (not read)")
				}
				rows = append(rows, [2]string{at[i].Layer, at[i].Path + state})
			}
			if a.json {
				return a.printJSON(at)
			}
			a.pairs(rows)
			return nil
		},
	}
}
