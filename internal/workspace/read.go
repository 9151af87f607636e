package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/workspace/workdir"
)

// Limits of a Reader: the most bytes of a file, and of all files together.
const (
	maxRead    = 2 << 20
	maxReadAll = 16 << 20
)

// ErrMissing means that the directory of a workspace is not on this machine.
var ErrMissing = workdir.ErrMissing

// Reader reads files of one workspace to show them to people, and notes what it read. It makes and changes nothing.
type Reader struct {
	ctx  context.Context
	root string
	dir  workdir.Dir
	seen hash.Hash
	left int
}

// Reader reads the files of a workspace below the root of workspaces, until ctx ends.
func (a Acquired) Reader(ctx context.Context, root string) *Reader {
	return &Reader{ctx: ctx, root: root, dir: a.Dir, seen: sha256.New(), left: maxReadAll}
}

// Read returns a file of the workspace, unless it holds secrets by custom. A file that is missing is fs.ErrNotExist;
// the other errors are for people.
func (r *Reader) Read(name string) ([]byte, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	clean := path.Clean(filepath.ToSlash(name))
	if git.Secret(clean) || slices.Contains(strings.Split(strings.ToLower(clean), "/"), ".git") {
		return nil, fmt.Errorf("%s may hold secrets and is not shown", name)
	}
	data, err := workdir.Read(r.root, r.dir.Path, clean, maxRead)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if r.left -= len(data); r.left < 0 {
		return nil, fmt.Errorf("the files together have more than %d MiB, %w", maxReadAll>>20, workdir.ErrTooLarge)
	}
	fmt.Fprintf(r.seen, "%q %t %x\n", clean, err == nil, sha256.Sum256(data))
	return data, err
}

// Note notes something else that was read.
func (r *Reader) Note(what string) { fmt.Fprintf(r.seen, "%q\n", what) }

// Digest names all that was read, in its order, as 64 hex digits.
func (r *Reader) Digest() string { return hex.EncodeToString(r.seen.Sum(nil)) }
