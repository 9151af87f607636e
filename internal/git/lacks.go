package git

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// kindsOfRefs are those that all working trees of a repository share.
var kindsOfRefs = []string{"refs/heads/", "refs/remotes/", "refs/tags/", Published}

// lacks reports whether the repository certainly has none of some refs: their files are looked for, which is much less
// than to start a git, and most names that are looked up are not there. Where it is false, git knows. As before each
// git, the layout is checked.
func lacks(l *layout, names ...string) (none bool, err error) {
	if err := l.check(); err != nil {
		return false, err
	}
	for _, name := range names {
		if !slices.ContainsFunc(kindsOfRefs, func(kind string) bool { return strings.HasPrefix(name, kind) }) {
			return false, nil
		}
	}
	err = l.inside(func(root *os.Root, top string) error {
		for _, name := range names {
			if _, err := root.Lstat(filepath.Join(top, filepath.FromSlash(name))); !errors.Is(err, fs.ErrNotExist) {
				return nil //nolint:nilerr // it is there, or cannot be looked for: git says which
			}
		}
		// Git packs a ref before it removes its file: whoever looks in this order does not miss it.
		packed, err := readNoFollow(filepath.Join(l.common, "packed-refs"), maxPacked)
		none = errors.Is(err, fs.ErrNotExist) || err == nil && !slices.ContainsFunc(names, func(name string) bool {
			return bytes.Contains(packed, []byte(" "+name))
		})
		return nil
	})
	return none, err
}

// maxPacked is the most bytes of a file of packed refs that are searched here.
const maxPacked = 16 << 20
