// Package merge has the commands by which a person takes what a run made of a copy of the person's repository: merge
// and diff.
//
// Promises: the branch of a run is fetched by the person's side, its digest checked; hooks of the repository do not
// run. Where a merge cannot be done, no file, branch or index is changed but for the branch that was fetched, and the
// error says what to do next.
package merge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/workcopy"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// mergeCommand is inspan merge.
type mergeCommand struct {
	App    *app.App
	into   string
	squash bool
	// unchecked takes files, too, that acceptance checks have not passed on.
	unchecked bool
	// plain is true where the files are in no repository, undo where the changes are taken out again, with force also
	// where somebody changed the same places.
	plain, undo, force bool
}

// Merge makes inspan merge.
func Merge(a *app.App) *cobra.Command {
	c := &mergeCommand{App: a}
	cmd := &cobra.Command{
		Use: "merge RUN", Short: "Bring what a run made into the repository of this directory", Args: app.Args(1),
		Long: `Fetches the branch of a run that worked on a copy of this repository, and merges it into the branch that is checked out, or moves
that on where nothing else happened. RUN may be a session too, and "last"
is the newest run that worked on a copy of this repository, or the newest of the station that runs. Where both sides changed the same places, or files that are not
committed would be overwritten, nothing is merged: the branch is there then, to be merged with git.

With --squash only what the run changed is put into the working tree, and nothing is committed. The same is done without --squash
where the run began with changes that are still not committed, and a merge would overwrite them. Hooks of the repository do not run.

Where acceptance checks decide about the run, its branch is merged only if its files are those that the checks passed on.`,
		Example: "  inspan merge run-k3v9x2m1qa\n  inspan merge run-k3v9x2m1qa --squash\n  inspan merge run-k3v9x2m1qa --into next",
		RunE:    stored(a, c.run),
	}
	cmd.Flags().StringVar(&c.into, "into", "", "branch to merge into; the one that is checked out if not given")
	cmd.Flags().BoolVar(&c.squash, "squash", false, "change the files and commit nothing")
	cmd.Flags().BoolVar(&c.unchecked, "unchecked", false,
		"merge although the acceptance checks of the run did not pass on these files")
	return cmd
}

// stored runs a command at the station that has a run: in the store that was kept of the run, else at the station of
// this directory.
func stored(a *app.App, do func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command,
	[]string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		var k workcopy.Kept
		ok := false
		if a.Shared == nil {
			k, ok = keptFor(ctx, a, args[0])
		}
		if !ok {
			return a.Connected(do)(cmd, args)
		}
		args = append([]string{k.Run}, args[1:]...)
		c, shut, err := a.OpenStore(ctx, k.Path)
		if err != nil {
			return fmt.Errorf("store of %s: %w (where the run still works, wait until it has ended)", args[0], err)
		}
		defer shut()
		a.OwnStore = k.Path
		defer c.Close()
		return do(ctx, c, args)
	}
}

// Kept is app.App.Kept: the store that was kept of a run.
func Kept(a *app.App) func(ctx context.Context, ref string) (app.KeptRun, bool) {
	return func(ctx context.Context, ref string) (app.KeptRun, bool) {
		k, ok := keptFor(ctx, a, ref)
		return app.KeptRun{Run: k.Run, Store: k.Path, At: k.At}, ok
	}
}

// keptFor finds the store that was kept of the run that a person means. Where a station runs, "last" is the station's.
func keptFor(ctx context.Context, a *app.App, ref string) (k workcopy.Kept, ok bool) {
	if a.Local || a.NamesServer() || !events.ValidID(ref) {
		return k, false
	}
	all, err := workcopy.Stores()
	if err != nil || len(all) == 0 {
		return k, false
	}
	if ref == app.LastRun && (a.Locate(ctx, a.Folder) || app.Listens(ctx, a.Server) == nil) {
		return k, false
	}
	root := ""
	if c, err := workcopy.Find(ctx, ".", nil); err == nil {
		root = c.Root()
	}
	k, ok = workcopy.Pick(all, ref, root)
	for i := 0; !ok && i < len(all); i++ {
		k, ok = all[i], retryOf(all[i].Run, ref)
		k.Run = ref
	}
	return k, ok && station.Stopped(k.Path)
}

// retryOf reports whether a run is a retry of another one, or one of that: it works in the same store.
func retryOf(of, id string) bool {
	for range maxRetries {
		if of = client.RetryOf(of); of == id {
			return true
		}
	}
	return false
}

// maxRetries is how many retries of a run are looked for.
const maxRetries = 20

// made is where the work of a run is kept.
type made struct {
	scope, branch string
	// base is the commit that the run began at; empty where that is not known.
	base string
	// run that was named, nil where a session was; session is that of either.
	run     *run.State
	session string
}

// find finds what a run, or the runs of a session, made.
func find(ctx context.Context, a *app.App, c *client.Client, id string) (made, error) {
	s, err := c.State(ctx, id)
	if errors.Is(err, client.ErrNotFound) {
		if _, e := c.Sessions().Get(ctx, id); e == nil {
			base, tip, err := sessionSpan(ctx, c, id)
			if err == nil && tip != "" && tip == base {
				err = fmt.Errorf("session %s changed no file: %w", id, git.ErrNothing)
			}
			return made{scope: "session/" + id, branch: workcopy.BranchPrefix + id, base: base, session: id}, err
		}
	}
	if err != nil {
		return made{}, err
	}
	if s.Created == nil || s.Created.Git == nil {
		return made{}, fmt.Errorf("run %s did not work in a repository: inspan artifacts list %s shows what it made", id, id)
	}
	if !s.Status.Ended() {
		return made{}, app.Exit(app.ExitPaused, fmt.Errorf("run %s has not ended, it is %s: %s", id, s.Status, goOn(a, id)))
	}
	m := made{scope: "run/" + id, branch: workcopy.BranchPrefix + id, run: &s, session: s.Created.Session}
	if s.Created.Session != "" {
		m.scope, m.branch = "session/"+s.Created.Session, workcopy.BranchPrefix+s.Created.Session
	}
	if s.Result == nil || s.Result.Delivery == nil {
		return m, nil
	}
	d := s.Result.Delivery
	if m.base = d.Base; d.Branch != "" {
		m.branch = d.Branch
	}
	if d.Bundle == "" && d.Commit != "" && d.Commit == d.Base {
		return m, fmt.Errorf("run %s changed no file: %w", id, git.ErrNothing)
	}
	return m, nil
}

// sessionSpan is the commit that the first run of a session began at, and the one that the last run ended at; each is
// empty where that is not known.
func sessionSpan(ctx context.Context, c *client.Client, session string) (base, tip string, err error) {
	all, err := c.Runs().List(ctx)
	if err != nil {
		return "", "", err
	}
	of := slices.DeleteFunc(all, func(i run.Info) bool { return i.SessionID != session })
	if len(of) == 0 {
		return "", "", nil
	}
	last, err := deliveryOf(ctx, c, of[0].HarnessID) // the newest is the first of the list
	if err != nil {
		return "", "", err
	}
	first := last
	if len(of) > 1 {
		if first, err = deliveryOf(ctx, c, of[len(of)-1].HarnessID); err != nil {
			return "", "", err
		}
	}
	return first.Base, last.Commit, nil
}

// deliveryOf is what a run delivered, or nothing.
func deliveryOf(ctx context.Context, c *client.Client, id string) (events.Delivery, error) {
	s, err := c.State(ctx, id)
	if err != nil || s.Result == nil || s.Result.Delivery == nil {
		return events.Delivery{}, err
	}
	return *s.Result.Delivery, nil
}

// goOn says how a run comes to its end.
func goOn(a *app.App, id string) string {
	if a.OwnStore != "" {
		return "inspan up --store " + app.ShellWord(a.OwnStore) + " goes on with it"
	}
	return a.CommandLine("watch", id)
}

// open reads the branch of a run beside the repository of the working directory, which is nil where there is none.
func open(ctx context.Context, c *client.Client, m made) (*git.Local, *git.Result, events.PublishedBranch, error) {
	g, err := workcopy.Git()
	if err != nil {
		return nil, nil, events.PublishedBranch{}, err
	}
	l, err := g.Local(ctx, ".")
	if err != nil && !errors.Is(err, git.ErrNotRepository) {
		return nil, nil, events.PublishedBranch{}, err
	}
	f, err := os.CreateTemp("", "inspan-merge-")
	if err != nil {
		return nil, nil, events.PublishedBranch{}, err
	}
	defer func() { _, _ = f.Close(), os.Remove(f.Name()) }() // it is in the folder for temporary files
	b, err := c.Branches().Write(ctx, m.scope, m.branch, f)
	if errors.Is(err, client.ErrNotFound) {
		return nil, nil, b, fmt.Errorf("%w: inspan branches list shows those that are kept, for %s after the run", err,
			"30 days")
	}
	if err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		return nil, nil, b, err
	}
	r, err := g.Result(ctx, l, f, git.Ref{Name: b.Branch, ID: b.Commit})
	return l, r, b, err
}

// report is what was done, for programs.
type report struct {
	Run    string   `json:"run"`
	Branch string   `json:"branch"`
	Commit string   `json:"commit"`
	Base   string   `json:"base,omitempty"`
	Into   string   `json:"into,omitempty"`
	How    string   `json:"how,omitempty"`
	Paths  []string `json:"paths"`
	Diff   string   `json:"diff,omitempty"`
	// Undone is what inspan undo changed back.
	Undone *git.Undone `json:"undone,omitempty"`
}

func (a *mergeCommand) run(ctx context.Context, c *client.Client, args []string) (err error) {
	if a.squash && a.into != "" {
		return app.Usage("--squash changes the files of this working tree, so --into means nothing: leave one of them out")
	}
	m, err := find(ctx, a.App, c, args[0])
	if errors.Is(err, git.ErrNothing) && !a.App.JSON {
		fmt.Fprintf(a.App.Out, "Nothing to merge: %v.\n", err)
		return workcopy.NoteWork(a.App.OwnStore, workcopy.Nothing)
	}
	if err != nil {
		return err
	}
	l, r, b, err := open(ctx, c, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if l == nil {
		forget, err := a.folder(ctx, r, m)
		if err != nil {
			return err
		}
		defer forget()
	}
	out := report{Run: args[0], Branch: b.Branch, Commit: b.Commit, Base: m.base, Paths: []string{}}
	if m.base != "" {
		if out.Paths, err = r.Paths(ctx, m.base); err != nil {
			return err
		}
	}
	if a.undo {
		return a.takeOut(ctx, r, m, out)
	}
	vouched, err := a.checked(ctx, c, r, m, b.Commit)
	if err != nil {
		return err
	}
	if a.squash || l == nil {
		err = a.apply(ctx, r, m, &out)
	} else {
		err = a.merge(ctx, l, r, m, &out)
	}
	if err == nil {
		err = workcopy.NoteWork(a.App.OwnStore, workcopy.Taken)
	}
	if err == nil && vouched && !a.App.JSON && (out.How == "merge" || out.How == "squash") {
		fmt.Fprintln(a.App.Out, "The checks of the run passed without what else is here: run them again.")
	}
	if err == nil && a.App.JSON {
		return a.App.PrintJSON(out)
	}
	return err
}

// folder finds the directory without a repository that the run had a copy of.
func (a *mergeCommand) folder(ctx context.Context, r *git.Result, m made) (forget func(), err error) {
	whole, err := r.First(ctx, m.base)
	if err != nil {
		return nil, err
	}
	if !whole || a.into != "" {
		return nil, fmt.Errorf("there is no repository here: %w (go to the one that the run was started in)",
			git.ErrNotRepository)
	}
	dir := "."
	if all, err := workcopy.Stores(); err == nil {
		if i := slices.IndexFunc(all, func(k workcopy.Kept) bool { return k.Path == a.App.OwnStore }); i >= 0 && all[i].Root != "" {
			dir = all[i].Root
		}
	}
	g, err := workcopy.Git()
	if err != nil {
		return nil, err
	}
	beside, err := os.MkdirTemp("", "inspan-merge-")
	if err != nil {
		return nil, err
	}
	forget = func() { _ = os.RemoveAll(beside) } // in the system's place for temporary files
	l, err := g.Folder(ctx, dir, beside)
	if err != nil {
		forget()
		return nil, err
	}
	r.Into(l)
	a.plain = true
	return forget, nil
}

// apply changes the files alone.
func (a *mergeCommand) apply(ctx context.Context, r *git.Result, m made, out *report) error {
	if m.base == "" {
		return app.Usage("--squash needs the commit that the work began at, which is not known of this one: name a run")
	}
	if err := r.Apply(ctx, m.base); err != nil {
		return fmt.Errorf("nothing was changed: %w\nThe files were changed at the same places since the run began. inspan diff %s shows what the run changed; to settle it with git: commit, then inspan merge %s",
			err, out.Run, out.Run)
	}
	if out.How = "squash"; a.App.JSON {
		return nil
	}
	rest := ", nothing committed. git diff shows it."
	if a.plain {
		rest = ". inspan diff " + out.Run + " shows what."
	}
	fmt.Fprintf(a.App.Out, "%s changed%s\n", view.Plural(len(out.Paths), "file"), rest)
	return nil
}

// merge fetches the branch and merges it. Where the run began with changes that are not committed and are in the way,
// only its own changes are put on top of them: a merge would commit the person's with it.
func (a *mergeCommand) merge(ctx context.Context, l *git.Local, r *git.Result, m made, out *report) error {
	if err := r.Fetch(ctx); err != nil {
		return err
	}
	done, err := l.MergeInto(ctx, out.Branch, a.into)
	if errors.Is(err, git.ErrDirty) && a.into == "" && m.base != "" {
		committed, e := l.Has(ctx, m.base)
		if e == nil && !committed {
			return a.apply(ctx, r, m, out)
		}
		err = errors.Join(err, e)
	}
	if out.Into = a.into; out.Into == "" {
		branch, _, e := l.Branch(ctx)
		err = errors.Join(err, e)
		out.Into = branch
	}
	if err != nil {
		return fmt.Errorf("nothing was merged: %w\n%s", err, advice(err, out))
	}
	if out.How, out.Commit = done.How, done.ID; a.App.JSON {
		return nil
	}
	into := out.Into
	if into == "" {
		into = "what is checked out"
	}
	switch done.How {
	case "nothing":
		fmt.Fprintf(a.App.Out, "%s has all of %s already.\n", into, out.Branch)
	case "forward":
		fmt.Fprintf(a.App.Out, "%s moved on to %s, at %s.\n", into, out.Branch, view.Clip(done.ID, 12))
	default:
		fmt.Fprintf(a.App.Out, "%s merged into %s, at %s.\n", out.Branch, into, view.Clip(done.ID, 12))
	}
	return nil
}

// advice says what to do where a branch could not be merged.
func advice(err error, out *report) string {
	lines := []string{fmt.Sprintf("The branch %s is here now.", out.Branch)}
	switch {
	case errors.Is(err, git.ErrDirty):
		lines = append(lines, fmt.Sprintf("To put only what the run changed on top of your files: inspan merge %s --squash",
			out.Run),
			"Else commit or stash your changes, and merge again.")
	case errors.Is(err, git.ErrConflict):
		lines = append(lines, fmt.Sprintf("To settle the conflicts: git merge %s", out.Branch))
	}
	return strings.Join(lines, "\n")
}
