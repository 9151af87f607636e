package git

import (
	"context"
	"path/filepath"

	"github.com/inspan/inspan/internal/pattern"
)

// lfsFilter is the attribute that hands a file to Git LFS.
var lfsFilter = pattern.New(`(?m)^[^#\n]*\sfilter=lfs(\s|$)`)

// Folder treats a directory that is in no repository as a working tree before its first commit. What git needs of a
// repository is made in beside, which is the caller's and may be removed with the Local. A Base of it needs the whole
// history, and it has no branch to merge into.
func (g *Git) Folder(ctx context.Context, dir, beside string) (*Local, error) {
	root, err := realDir(dir)
	if err != nil {
		return nil, err
	}
	at := filepath.Join(beside, "folder.git")
	if _, err := g.run(ctx, call{args: []string{"init", "--quiet", "--bare", "--template=", "--", at}}); err != nil {
		return nil, err
	}
	return &Local{g: g, Root: root, gitDir: at, common: at, folder: true}, nil
}

// IsFolder reports whether it is a directory without a repository.
func (l *Local) IsFolder() bool { return l.folder }

// LFS reports whether the attributes of the working tree name the filter of Git LFS.
func (l *Local) LFS() bool {
	for _, at := range []string{filepath.Join(l.Root, ".gitattributes"), filepath.Join(l.common, "info", "attributes")} {
		if text, err := readNoFollow(at, maxConfig); err == nil && lfsFilter.MatchString(string(text)) {
			return true
		}
	}
	return false
}
