package capture

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
)

// Limits of a look at a workspace.
const (
	// maxFiles is how many files are looked at; a workspace with more is looked at in part.
	maxFiles = 200_000
	maxDepth = 64
)

// mark tells one state of a file from another.
type mark struct {
	Size    int64  `json:"s"`
	ModTime int64  `json:"m"`
	Change  int64  `json:"c,omitempty"`
	Inode   uint64 `json:"i,omitempty"`
}

// sheet is the files of a workspace by path.
type sheet map[string]mark

// alwaysSkipped are folders that no agent's settings bring back: the history of a repository, and the notes that the
// toolrunner itself writes.
func alwaysSkipped(folder string) bool {
	return path.Base(folder) == ".git" || folder == ".harness" || path.Base(folder) == "node_modules"
}

// errTooMany ends a look at more than maxFiles.
var errTooMany = errors.New("too many files")

// look lists the regular files below a folder. Links are not followed; what goes away or cannot be read meanwhile is
// not listed. more is true where there were too many files.
func look(ctx context.Context, root *os.Root) (files sheet, more bool, err error) {
	files = sheet{}
	err = lookInto(ctx, root, "", files, 0)
	if errors.Is(err, errTooMany) {
		return files, true, nil
	}
	return files, false, err
}

func lookInto(ctx context.Context, at *os.Root, folder string, into sheet, depth int) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	names, err := list(at)
	if err != nil {
		if depth == 0 {
			return fmt.Errorf("scan the workspace: %w", err)
		}
		return nil //nolint:nilerr // a folder that went away or is closed to us has nothing for us
	}
	for _, name := range names {
		info, err := at.Lstat(name)
		if err != nil {
			continue
		}
		full := path.Join(folder, name)
		switch {
		case info.Mode().IsRegular():
			if len(into) >= maxFiles {
				return errTooMany
			}
			into[full] = markOf(info)
		case info.IsDir() && depth < maxDepth && !alwaysSkipped(full):
			if err := descend(ctx, at, name, info, full, into, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// descend looks into a folder, if what is opened is what was seen: no link was put in its place.
func descend(ctx context.Context, at *os.Root, name string, seen fs.FileInfo, full string, into sheet,
	depth int) error {
	sub, err := at.OpenRoot(name)
	if err != nil {
		return nil //nolint:nilerr // it went away
	}
	defer sub.Close()
	if now, err := sub.Lstat("."); err != nil || !os.SameFile(seen, now) {
		return nil //nolint:nilerr // it is another one now
	}
	return lookInto(ctx, sub, full, into, depth+1)
}

// list returns the names in a folder, sorted.
func list(at *os.Root) ([]string, error) {
	f, err := at.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// changed lists the files that are not as they were, sorted.
func changed(before, after sheet) []string {
	var out []string
	for name, now := range after {
		if was, there := before[name]; !there || was != now {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
