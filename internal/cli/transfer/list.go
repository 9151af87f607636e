package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/inspan/inspan/internal/archive"
	"github.com/inspan/inspan/internal/archive/at"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
)

// listArchives shows what archives have of a station's runs. It needs no station.
func listArchives(ctx context.Context, a *app.App, from, only []string) error {
	var all []archive.Source
	for _, dir := range from {
		if dir == "bucket" {
			return app.Usage("--list shows folders: what the station's own object store has of ended runs is shown by inspan runs")
		}
		d, err := at.Open(ctx, dir)
		if errors.Is(err, archive.ErrNone) {
			return app.Exit(app.ExitUnknown, fmt.Errorf("--from %s: %w", dir, err))
		}
		if err != nil {
			return err
		}
		all = append(all, d)
	}
	runs, err := archive.Join(all...).Runs(ctx)
	if err != nil {
		return err
	}
	p, rows, shown := a.Paint(), [][]string{}, []archive.Manifest{}
	for _, m := range runs {
		if m.Station != a.Station || len(only) > 0 && !slices.Contains(only, m.Run) {
			continue
		}
		shown = append(shown, m)
		files, artifacts, left := "not archived", "-", len(m.Missing)
		if b := m.Extras; b != nil {
			artifacts, left = fmt.Sprint(len(b.Artifacts)), left+len(b.Left)
			if b.Snapshot != "" {
				files = fmt.Sprintf("%s, %s", view.Plural(b.Files, "file"), view.Bytes(b.Bytes))
			}
		}
		rows = append(rows, []string{m.Run, p.State(string(m.Status)), fmt.Sprint(m.Sequence), files, artifacts,
			fmt.Sprint(left)})
	}
	if a.JSON {
		return a.PrintJSON(map[string]any{"runs": shown})
	}
	a.Table([]string{"RUN", "STATUS", ">EVENTS", "FILES", ">ARTIFACTS", ">LEFT OUT"}, rows)
	for _, m := range shown {
		if m.Extras == nil {
			fmt.Fprintf(a.Err, "run %s: it was saved without files and artifacts\n", m.Run)
			continue
		}
		reportLeft(a, m.Run, m.Extras.Left)
	}
	return nil
}
