package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/inspan/inspan/internal/archive"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/kernel"
)

// toldEvery is how many bytes of something large are passed between two lines of progress; smaller things have none.
const toldEvery = 64 << 20

// progress tells of large files on standard error, where a person looks.
func (a *app) progress() func(what string, done, total int64) {
	if a.json {
		return nil
	}
	var next int64
	var of string
	return func(what string, done, total int64) {
		if what != of {
			of, next = what, toldEvery
		}
		if total < toldEvery || done < next && done < total {
			return
		}
		next = done + toldEvery
		fmt.Fprintf(a.err, "%s: %s of %s\n", harmless(what), view.Bytes(done), view.Bytes(total))
	}
}

// filesOf says in a word what became of the files of a run.
func filesOf(b archive.Brought) string {
	switch {
	case b.Files == archive.FilesBrought && b.Stale:
		return view.Plural(b.FilesCount, "file") + ", old"
	case b.Files == archive.FilesBrought:
		return view.Plural(b.FilesCount, "file")
	case b.Files == archive.FilesThere:
		return "as they are"
	}
	return "none"
}

// tellFiles says what was not brought of a run, and what must be done to use what was.
func (a *app) tellFiles(b archive.Brought) {
	switch {
	case b.Files == archive.FilesBrought && b.Stale:
		fmt.Fprintf(a.err, "run %s: the files of %s are older than its log: its agent is told to look before it goes on\n", b.Run, b.Workspace)
	case b.Files == archive.FilesBrought && !b.Status.Ended():
		fmt.Fprintf(a.err, "run %s: its %s (%s) are in the station; toolrunners with INSPAN_WORKSPACE_MODE=follow restore them, others begin with an empty workspace\n",
			b.Run, view.Plural(b.FilesCount, "file"), view.Bytes(b.FilesBytes))
	case b.Files == archive.FilesThere:
		fmt.Fprintf(a.err, "run %s: the station has workspace %s already, its files were left as they are\n", b.Run, b.Workspace)
	case b.Files == archive.FilesLeft && len(b.Left) == 0:
		fmt.Fprintf(a.err, "run %s: the files of %s were not in the archive\n", b.Run, b.Workspace)
	}
	if b.MissingArtifacts > 0 {
		fmt.Fprintf(a.err, "run %s: %s were not in the archive\n", b.Run, view.Plural(b.MissingArtifacts, "artifact"))
	}
	a.tellLeft(b.Run, b.Left)
}

// maxLeft is how much of what is left out is told one by one.
const maxLeft = 5

func (a *app) tellLeft(runID string, left []archive.Left) {
	for i, l := range left {
		if i == maxLeft {
			fmt.Fprintf(a.err, "run %s: %d more are not in it, --json has all\n", runID, len(left)-i)
			return
		}
		fmt.Fprintf(a.err, "run %s: not in it: %s: %s\n", runID, harmless(l.What), harmless(l.Why))
	}
}

// tellSaved says what is in a bundle beside the log, and what is not.
func (a *app) tellSaved(m archive.Manifest) {
	b := m.Beside
	if b == nil {
		return
	}
	fmt.Fprintf(a.out, "With it: %s (%s) of its workspace, %s, %s\n", view.Plural(b.Files, "file"), view.Bytes(b.Bytes),
		view.Plural(len(b.Artifacts), "artifact"), plural(b.Branches, "published branch", "published branches"))
	a.tellLeft(m.Run, b.Left)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// listArchives shows what archives have of a station's runs. It needs no station.
func (a *app) listArchives(ctx context.Context, from, only []string) error {
	var all []archive.Source
	for _, dir := range from {
		if dir == "bucket" {
			return usage("--list shows folders: what the station's own object store has of ended runs is shown by inspan runs")
		}
		d, err := archive.Open(dir)
		if errors.Is(err, kernel.ErrNotFound) {
			return exitWith(exitUnknown, fmt.Errorf("--from %s: %w", dir, err))
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
	p, rows, shown := a.paint(), [][]string{}, []archive.Manifest{}
	for _, m := range runs {
		if m.Station != a.station || len(only) > 0 && !slices.Contains(only, m.Run) {
			continue
		}
		shown = append(shown, m)
		files, artifacts, left := "not archived", "-", len(m.Missing)
		if b := m.Beside; b != nil {
			artifacts, left = fmt.Sprint(len(b.Artifacts)), left+len(b.Left)
			if b.Snapshot != "" {
				files = fmt.Sprintf("%s, %s", view.Plural(b.Files, "file"), view.Bytes(b.Bytes))
			}
		}
		rows = append(rows, []string{m.Run, p.state(string(m.Status)), fmt.Sprint(m.Sequence), files, artifacts, fmt.Sprint(left)})
	}
	if a.json {
		return a.printJSON(map[string]any{"runs": shown})
	}
	a.table([]string{"RUN", "STATUS", ">FACTS", "FILES", ">ARTIFACTS", ">LEFT OUT"}, rows)
	for _, m := range shown {
		if m.Beside == nil {
			fmt.Fprintf(a.err, "run %s: it was saved without files and artifacts\n", m.Run)
			continue
		}
		a.tellLeft(m.Run, m.Beside.Left)
	}
	return nil
}
