package capture

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

const (
	// EarlierFolder takes the files of earlier runs in a workspace that git works in or may: no commit has it, and git
	// can still clone beside it.
	EarlierFolder = ".harness/earlier"
	// maxBrought is how many files of earlier runs are brought into a workspace. Their bytes have the limit of the
	// run's own artifacts.
	maxBrought = 1000
	// maxNamed is how many files a note names.
	maxNamed = 5
)

// refusedName is why a file is not brought whose path cannot be gone, or must not.
const refusedName = "their names are refused, or other files exist at their paths"

// Earlier says where the files of earlier runs go.
type Earlier struct {
	// Dir is the absolute path of the workspace.
	Dir string
	// Rules of the agent; nil means those of the station.
	Rules *events.ArtifactRules
	// Runs tells what the earlier runs made.
	Runs Runs
	// Note takes a line for people about what was brought and what was not, and why; nil drops it.
	Note func(line string)
}

// Earlier brings the files of the earlier runs of the workflow that a run was created with into its workspace (ART-9):
// of each path the newest, none that is there or that the run has an artifact of, and none to or through a name that
// leads out of the workspace or into what is the harness's or git's. It is called before Restore and Begin; once the
// files of the workspace were listed it brings nothing more. A crash leaves a part, which the next call completes. It
// returns how many files it wrote.
func (k *Keeper) Earlier(ctx context.Context, s run.State, e Earlier) (int, error) {
	c := s.Created
	if k.cfg.Store == nil || c == nil || len(c.Earlier) == 0 || c.ForkOf != nil && c.ForkOf.SameWorkspace {
		return 0, nil
	}
	return k.bring(ctx, s.HarnessID, e.Dir, func(root *os.Root) (int, error) { return k.earlier(ctx, s, e, root) })
}

func (k *Keeper) earlier(ctx context.Context, s run.State, e Earlier, root *os.Root) (int, error) {
	b := &bringing{Keeper: k, s: s, root: root, left: map[string][]string{}, files: maxBrought,
		bytes: artifact.LimitsOf(e.Rules).Run}
	if gitIn(s, root) {
		b.under = EarlierFolder
	}
	offered, err := b.offered(ctx, e.Runs)
	if err != nil {
		return 0, err
	}
	for _, a := range offered {
		if err := b.one(ctx, a); err != nil {
			return b.written, fmt.Errorf("copy artifact %s of run %s into the workspace: %w", a.ID, a.Run, err)
		}
	}
	if e.Note != nil {
		b.report(e.Note)
	}
	return b.written, nil
}

// gitIn reports whether git works in a workspace, or may: an agent can clone into one that holds no files.
func gitIn(s run.State, root *os.Root) bool {
	if s.Created.Git != nil || s.Created.Repo != "" {
		return true
	}
	for _, a := range s.Agents {
		if slices.Contains(a.Tools, events.GitPrepare) {
			return true
		}
	}
	_, err := root.Lstat(".git")
	return err == nil
}

// bringing is one time that files of earlier runs are brought.
type bringing struct {
	*Keeper
	s    run.State
	root *os.Root
	// under is the folder that they go to, empty for the workspace itself.
	under string
	// files and bytes are what may still be brought.
	files   int
	bytes   int64
	written int
	// left are the files that were not brought, by reason.
	left map[string][]string
}

// pass notes a file that is not brought.
func (b *bringing) pass(a events.Artifact, why string) {
	b.left[why] = append(b.left[why], artifact.Shown(a.Path)+" of run "+a.Run)
}

// offered lists what earlier runs have for this one, the newest run first.
func (b *bringing) offered(ctx context.Context, runs Runs) ([]events.Artifact, error) {
	known := map[string]bool{}
	for _, a := range artifact.Latest(b.s) {
		known[a.Path] = true
	}
	var all []events.Artifact
	ids := b.s.Created.Earlier
	for _, id := range slices.Backward(ids[max(0, len(ids)-events.MaxEarlier):]) {
		old, err := runs.Fresh(ctx, id)
		if errors.Is(err, kernel.ErrHeld) {
			b.left["their log is damaged"] = append(b.left["their log is damaged"], "all of run "+id)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("earlier run %s: %w", id, err)
		}
		if old.Created == nil || !old.Status.Ended() {
			continue // it ended before this one was created: this is another log
		}
		if old.Created.Workspace == b.s.Created.Workspace {
			// What is in the directory that they share is the truth (ART-10), unless it was lost or cleaned up.
			if empty, err := b.wasEmpty(ctx); err != nil || !empty {
				if err != nil {
					return nil, err
				}
				continue
			}
		}
		for _, a := range artifact.Latest(old) {
			if a.Path == "" || known[a.Path] {
				continue
			}
			known[a.Path] = true
			all = append(all, a)
		}
	}
	return all, nil
}

// emptyPath is where it stands that the workspace of a run held no files when bringing began.
func (k *Keeper) emptyPath(runID string) string { return filepath.Join(k.cfg.Lists, runID+".empty") }

// wasEmpty reports whether the workspace held no files when bringing began, also where a crash left some since.
func (b *bringing) wasEmpty(ctx context.Context) (bool, error) {
	mark := b.emptyPath(b.s.HarnessID)
	if _, err := os.Lstat(mark); !errors.Is(err, fs.ErrNotExist) {
		return err == nil, err
	}
	files, _, err := look(ctx, b.root)
	if err != nil {
		return false, err
	}
	for name := range files {
		if !Own(name) {
			return false, nil
		}
	}
	if err := os.MkdirAll(b.cfg.Lists, 0o700); err != nil {
		return false, err
	}
	return true, disk.Replace(mark, nil, 0o600)
}

// one brings one file, or notes why not. Its error is one that another try may not meet.
func (b *bringing) one(ctx context.Context, a events.Artifact) error {
	switch {
	case a.Kept != events.StoredInBucket:
		b.pass(a, "they exist only in their workspace")
		return nil
	case hostile(a.Path):
		b.pass(a, refusedName)
		return nil
	case a.Size > artifact.MaxTransfer || b.files < 1 || b.bytes < a.Size:
		b.pass(a, fmt.Sprintf("they would exceed %d files or the byte limit for artifacts of the run", maxBrought))
		return nil
	}
	file := path.Join(b.under, a.Path)
	if _, err := b.root.Lstat(file); err == nil {
		return nil // it is left as it is
	}
	data, err := b.cfg.Store.Get(ctx, a.Run, a.Ref())
	switch {
	case errors.Is(err, kernel.ErrNotFound):
		b.pass(a, "they have expired")
		return nil
	case errors.Is(err, kernel.ErrDamagedObject) || err == nil && digest(data) != a.SHA256:
		b.pass(a, "they are damaged in the store")
		return nil
	case err != nil:
		return err
	}
	if err := bring(b.root, file, data); err != nil {
		if _, refused := errors.AsType[*unfit](err); refused || errors.Is(err, syscall.ENAMETOOLONG) {
			b.pass(a, refusedName)
			return nil
		}
		return err
	}
	b.written++
	b.files--
	b.bytes -= a.Size
	return nil
}

// hostile reports whether a path leads out of a workspace, or into what is the harness's or git's.
func hostile(file string) bool {
	if artifact.CheckPath(file) != "" || Own(file) {
		return true
	}
	for part := range strings.SplitSeq(file, "/") {
		plain := strings.Map(func(r rune) rune {
			if unicode.Is(unicode.Cf, r) {
				return -1 // some file systems do not see it
			}
			return r
		}, part)
		switch strings.ToLower(plain) {
		case ".git", ".inspan", ".harness":
			return true
		}
	}
	return false
}

// bring makes a file with the folders of its path, none of which may be a link. One that is there is left as it is. Its
// error is an *unfit where the path cannot be gone.
func bring(root *os.Root, file string, data []byte) error {
	at := root
	defer func() {
		if at != root {
			_ = at.Close() // nothing is written through it any more
		}
	}()
	if dir := path.Dir(file); dir != "." {
		for part := range strings.SplitSeq(dir, "/") {
			if err := at.Mkdir(part, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			next, err := openFolder(at, part)
			if err != nil {
				return err
			}
			if at != root {
				_ = at.Close() // as above
			}
			at = next
		}
	}
	return Write(at, path.Base(file), data, false)
}

// report says what was brought and what was not.
func (b *bringing) report(note func(string)) {
	if b.written > 0 {
		to := "the workspace"
		if b.under != "" {
			to = b.under
		}
		note(fmt.Sprintf("files of earlier runs of the workflow that were copied into %s: %d\n", to, b.written))
	}
	for _, why := range slices.Sorted(maps.Keys(b.left)) {
		names := b.left[why]
		more := ""
		if len(names) > maxNamed {
			more = fmt.Sprintf(" and %d more", len(names)-maxNamed)
		}
		note(fmt.Sprintf("files of earlier runs that were not copied, because %s: %s%s\n", why,
			strings.Join(names[:min(len(names), maxNamed)], ", "), more))
	}
}
