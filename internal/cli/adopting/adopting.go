// Package adopting has the commands that take over what people have for other harnesses.
package adopting

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/adopt"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
)

// adoptCommand is inspan import gastown and inspan import station.
type adoptCommand struct {
	App  *app.App
	to   string
	dry  bool
	read func(*os.Root) (*adopt.Report, error)
}

// Extend adds to inspan import what reads the folders of other harnesses.
func Extend(a *app.App, parent *cobra.Command) *cobra.Command {
	parent.AddCommand(command(a, &cobra.Command{Use: "gastown DIR",
		Short: "Take over roles, formulas, runtimes, hooks and messaging of a Gas Town",
		Long: `Reads the folder of a Gas Town and writes agents, roles, runtimes, formulas and the policy of a station below --to. A file that is
there is never written over. Addresses, merge queues and alert routes belong to a station: they are printed as commands, and none of
them is carried out. It says of each thing whether it was taken, changed or refused, and why.`,
		Example: "  inspan import gastown ~/gt --dry-run\n  inspan import gastown ~/gt --to town --json | jq '.items[] | select(.outcome == \"refused\")'"},
		adopt.Gastown),
		command(a, &cobra.Command{Use: "station DIR",
			Short: "Take over agents, workflows, permissions and settings of a Station",
			Long: `Reads the folder of a Station, or of one of its environments, and writes its agents, workflows, the harness section of its
configuration, and permissions as the policy of a station below --to. A file that is there is never written over. It says of each
thing whether it was taken, changed or refused, and why.`,
			Example: "  inspan import station ~/.config/station --dry-run\n  inspan import station ~/.config/station/environments/default --to ."},
			adopt.Station))
	return parent
}

func command(a *app.App, cmd *cobra.Command, read func(*os.Root) (*adopt.Report, error)) *cobra.Command {
	c := &adoptCommand{App: a, read: read}
	cmd.Args, cmd.RunE = app.Args(1), c.run
	cmd.Flags().StringVar(&c.to, "to", ".", "folder that the files are written below")
	cmd.Flags().BoolVar(&c.dry, "dry-run", false, "say what would be made, and make nothing")
	return cmd
}

// answer is what programs read.
type answer struct {
	*adopt.Report
	To string `json:"to"`
	// Written are the files by what became of them: made, kept or same; would be made with --dry-run.
	Written map[string]string `json:"files"`
	DryRun  bool              `json:"dry_run,omitempty"`
}

func (a *adoptCommand) run(_ *cobra.Command, args []string) error {
	root, err := os.OpenRoot(args[0])
	if err != nil {
		return app.Usage("%w", err)
	}
	defer root.Close()
	r, err := a.read(root)
	if err != nil {
		return app.Usage("%s: %w", args[0], err)
	}
	out := answer{Report: r, To: a.to, Written: map[string]string{}, DryRun: a.dry}
	for _, at := range slices.Sorted(maps.Keys(r.Files)) {
		if out.Written[at], err = a.write(at, r.Files[at]); err != nil {
			return err
		}
	}
	if a.App.JSON {
		return a.App.PrintJSON(out)
	}
	a.show(args[0], out)
	return nil
}

// write makes one file, unless there is one.
func (a *adoptCommand) write(at string, text []byte) (string, error) {
	path := filepath.Join(a.to, filepath.FromSlash(at))
	if before, err := os.ReadFile(path); err == nil {
		if string(before) == string(text) {
			return "same", nil
		}
		return "kept", nil
	}
	if a.dry {
		return "would be made", nil
	}
	file, err := app.WriteFile(path, text, false)
	return file.State, err
}

func (a *adoptCommand) show(dir string, out answer) {
	if len(out.Items) == 0 {
		fmt.Fprintf(a.App.Out, "%s has nothing that is known: name the folder of the settings.\n", terminal.Sanitize(dir))
		return
	}
	p, n := a.App.Paint(), map[string]int{}
	for _, i := range out.Items {
		n[i.Outcome]++
		mark := p.Green(fmt.Sprintf("%-8s", i.Outcome))
		switch i.Outcome {
		case adopt.Changed:
			mark = p.Yellow(fmt.Sprintf("%-8s", i.Outcome))
		case adopt.Refused:
			mark = p.Red(fmt.Sprintf("%-8s", i.Outcome))
		}
		line := fmt.Sprintf("%s  %s %s  (%s)", mark, i.Kind, p.Bold(terminal.Sanitize(i.Name)), terminal.Sanitize(i.From))
		if state := out.Written[i.To]; state != "" {
			line += "  -> " + terminal.Sanitize(i.To)
			if state == "kept" {
				line += p.Red("  another file is there, and stays")
			}
		}
		fmt.Fprintln(a.App.Out, line)
		for _, note := range i.Notes {
			fmt.Fprintln(a.App.Out, "          "+terminal.Sanitize(note))
		}
	}
	if len(out.Commands) > 0 {
		fmt.Fprintln(a.App.Out, "\nAt a station, register what no file has:")
		for _, c := range out.Commands {
			fmt.Fprintln(a.App.Out, "  "+terminal.Sanitize(adopt.Quoted(c)))
		}
	}
	made := "made"
	if a.dry {
		made = "would be made"
	}
	files := 0
	for _, state := range out.Written {
		if state == made {
			files++
		}
	}
	fmt.Fprintf(a.App.Out, "\n%d taken, %d changed, %d refused; %d files %s below %s.\n", n[adopt.Taken], n[adopt.Changed],
		n[adopt.Refused], files,
		made, strings.TrimSpace(terminal.Sanitize(a.to)))
}
