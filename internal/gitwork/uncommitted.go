package gitwork

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// Uncommitted is what a working tree has that no commit has; nil where it is in no repository. Files of the harness
// and those that the repository ignores do not count. The index is believed: who marks a file in it as unchanged is
// not found.
func (d *Desk) Uncommitted(ctx context.Context, dir string) (*events.Uncommitted, error) {
	if _, err := os.Lstat(filepath.Join(dir, ".git")); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err := d.probe(ctx); err != nil {
		return nil, err
	}
	r, err := d.work(Job{Dir: dir}).open(ctx)
	if err != nil {
		return nil, err
	}
	s, err := r.Status(ctx)
	if err != nil {
		return nil, err
	}
	u := &events.Uncommitted{Paths: len(s.Conflicts), Branch: strings.ToValidUTF8(s.Head.Branch, "")}
	for _, c := range s.Changes {
		if top, _, _ := strings.Cut(c.Path, "/"); !IsOwn(top) {
			u.Paths++
		}
	}
	return u, nil
}
