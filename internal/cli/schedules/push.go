package schedules

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/schedule"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// pushCommand is inspan schedule push.
type pushCommand struct {
	App        *app.App
	dry, trust bool
	by         string
}

// maxFiles bounds how many files are pushed at once.
const maxFiles = 1000

func pushCmd(a *app.App) *cobra.Command {
	c := &pushCommand{App: a}
	cmd := &cobra.Command{
		Use: "push [DIR|FILE...]", Short: "Register the schedules of a folder: those that are new or changed",
		Long: `Reads files of schedules, compares each with what the station has, and registers what is new or changed. Where the times stay the
same, those that are due stay due. Without an argument it takes the folder schedules, once you accepted it as it is now (inspan trust).
Where a file is wrong nothing is registered and the exit code is 2. A schedule whose file is gone is not removed: inspan schedule remove.`,
		Example: "  inspan schedule push --dry-run\n  inspan schedule push schedules/nightly.yaml",
		Args:    cobra.ArbitraryArgs, RunE: c.run,
	}
	cmd.Flags().BoolVar(&c.dry, "dry-run", false, "say what would be registered, and register nothing")
	cmd.Flags().BoolVar(&c.trust, "trust", false, "accept for this once the schedules of the directory that no one named")
	cmd.Flags().StringVar(&c.by, "by", a.Me(), "who asks (INSPAN_APPROVER, USER)")
	return cmd
}

// pushed is a file and what became of it.
type pushed struct {
	Name  string `json:"name"`
	File  string `json:"file"`
	State string `json:"state"`
	spec  events.ScheduleSpec
}

// States of a pushed file.
const (
	stateNew       = "new"
	stateChanged   = "changed"
	stateUnchanged = "unchanged"
)

func (a *pushCommand) run(cmd *cobra.Command, args []string) error {
	files, err := a.files(cmd.Context(), args)
	if err != nil {
		return err
	}
	all := []pushed{}
	seen := map[string]string{}
	var faults []error
	for _, file := range files {
		name, spec, err := readFile(file)
		if first := seen[name]; err == nil && first != "" {
			err = fmt.Errorf("%s: schedule %s is in %s, too: give one of them another name", file, name, first)
		}
		if err != nil {
			faults = append(faults, err)
			continue
		}
		seen[name] = file
		all = append(all, pushed{Name: name, File: file, spec: spec})
	}
	if len(faults) > 0 {
		return app.Usage("nothing was registered: %w", errors.Join(faults...))
	}
	return a.App.Connected(func(ctx context.Context, c *client.Client, _ []string) error {
		return a.push(ctx, c, all)
	})(cmd, nil)
}

// files are those that the arguments name, or those of the project once a person accepted them.
func (a *pushCommand) files(ctx context.Context, args []string) (files []string, err error) {
	if len(args) == 0 {
		if _, err := os.Stat(app.ProjectSchedules); errors.Is(err, fs.ErrNotExist) {
			return nil, app.Usage("which schedules? inspan schedule push DIR or FILE: there is no folder %s here",
				app.ProjectSchedules)
		}
		copied, err := a.App.Acceptance().Schedules(ctx, app.ProjectSchedules, a.trust)
		if err != nil {
			return nil, err
		}
		args = []string{copied}
	}
	for _, arg := range args {
		info, err := os.Stat(arg)
		switch {
		case err != nil:
			return nil, app.Usage("%w", err)
		case !info.IsDir():
			files = append(files, arg)
			continue
		}
		there, err := os.ReadDir(arg)
		if err != nil {
			return nil, err
		}
		for _, f := range there {
			if ext := filepath.Ext(f.Name()); !f.IsDir() && (ext == ".yaml" || ext == ".yml") {
				files = append(files, filepath.Join(arg, f.Name()))
			}
		}
	}
	slices.Sort(files)
	if files = slices.Compact(files); len(files) > maxFiles {
		return nil, app.Usage("%d files, the limit is %d: name some of them", len(files), maxFiles)
	}
	return files, nil
}

func (a *pushCommand) push(ctx context.Context, c *client.Client, all []pushed) error {
	there := client.NewSchedules(c)
	for i := range all {
		one := &all[i]
		s, err := there.Get(ctx, one.Name)
		switch {
		case errors.Is(err, client.ErrNotFound):
			one.State = stateNew
		case err != nil:
			return err
		case reflect.DeepEqual(s.Spec, one.spec):
			one.State = stateUnchanged
		default:
			one.State = stateChanged
		}
	}
	changes := 0
	for _, one := range all {
		if one.State == stateUnchanged {
			continue
		}
		changes++
		if a.dry {
			continue
		}
		if err := a.register(ctx, there, one); err != nil {
			return fmt.Errorf("%s: %w (%d registered before it)", one.File, err, changes-1)
		}
	}
	if a.App.JSON {
		return a.App.PrintJSON(map[string]any{"station": c.Station(), "dry_run": a.dry, "schedules": all})
	}
	rows := [][]string{}
	for _, one := range all {
		rows = append(rows, []string{one.State, one.Name, one.spec.When(), filepath.Base(one.File)})
	}
	if len(rows) > 0 {
		a.App.Table([]string{"STATE", "NAME", "WHEN", "FILE"}, rows)
	}
	verb := "registered"
	if a.dry {
		verb = "would be registered"
	}
	fmt.Fprintf(a.App.Out, "%s %s at station %s.\n", view.Plural(changes, "schedule"), verb, c.Station())
	return nil
}

func (a *pushCommand) register(ctx context.Context, there client.Schedules, one pushed) error {
	ctx, cancel := context.WithTimeout(ctx, a.App.Wait)
	defer cancel()
	_, err := there.Control(ctx, one.Name,
		events.ScheduleControl{Action: schedule.Set, Spec: &one.spec, New: one.State == stateNew,
			By: a.by})
	return err
}
