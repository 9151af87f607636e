package transfer

import (
	"fmt"

	"github.com/inspan/inspan/internal/archive"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
)

// progressBytes is how many bytes of something large are passed between two lines of progress; smaller things have
// none.
const progressBytes = 64 << 20

// progress reports large files on standard error, where a person looks.
func progress(a *app.App) func(what string, done, total int64) {
	if a.JSON {
		return nil
	}
	var next int64
	var of string
	return func(what string, done, total int64) {
		if what != of {
			of, next = what, progressBytes
		}
		if total < progressBytes || done < next && done < total {
			return
		}
		next = done + progressBytes
		fmt.Fprintf(a.Err, "%s: %s of %s\n", terminal.Sanitize(what), view.Bytes(done), view.Bytes(total))
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

// reportFiles says what was not brought of a run, and what must be done to use what was.
func reportFiles(a *app.App, b archive.Brought) {
	switch {
	case b.Files == archive.FilesBrought && b.Stale:
		fmt.Fprintf(a.Err, "run %s: the files of %s are older than its log: its agent is asked to check them before it continues\n", b.Run, b.Workspace)
	case b.Files == archive.FilesBrought && !b.Status.Ended():
		fmt.Fprintf(a.Err, "run %s: its %s (%s) are in the station; toolrunners with INSPAN_WORKSPACE_MODE=follow restore them, others begin with an empty workspace\n",
			b.Run, view.Plural(b.FilesCount, "file"), view.Bytes(b.FilesBytes))
	case b.Files == archive.FilesThere:
		fmt.Fprintf(a.Err, "run %s: the station has workspace %s already, its files were left as they are\n", b.Run,
			b.Workspace)
	case b.Files == archive.FilesLeft && len(b.Left) == 0:
		fmt.Fprintf(a.Err, "run %s: the files of %s were not in the archive\n", b.Run, b.Workspace)
	}
	if b.MissingArtifacts > 0 {
		fmt.Fprintf(a.Err, "run %s: %s were not in the archive\n", b.Run, view.Plural(b.MissingArtifacts, "artifact"))
	}
	reportLeft(a, b.Run, b.Left)
}

// maxLeft is how much of what is left out is named one by one.
const maxLeft = 5

func reportLeft(a *app.App, runID string, left []archive.Left) {
	for i, l := range left {
		if i == maxLeft {
			fmt.Fprintf(a.Err, "run %s: %d more are not in it, --json has all\n", runID, len(left)-i)
			return
		}
		fmt.Fprintf(a.Err, "run %s: not in it: %s: %s\n", runID, terminal.Sanitize(l.What), terminal.Sanitize(l.Why))
	}
}

// reportBundle says what is in a bundle beside the log, and what is not.
func reportBundle(a *app.App, m archive.Manifest) {
	b := m.Extras
	if b == nil {
		return
	}
	fmt.Fprintf(a.Out, "With it: %s (%s) of its workspace, %s, %s\n", view.Plural(b.Files, "file"), view.Bytes(b.Bytes),
		view.Plural(len(b.Artifacts), "artifact"), plural(b.Branches, "published branch", "published branches"))
	reportLeft(a, m.Run, b.Left)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
