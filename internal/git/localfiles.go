package git

import (
	"context"
	"slices"
	"strings"
)

// Files lists the files of the working tree that a copy of it has, with slashes: those that are committed or new, and
// neither ignored nor named as secrets are.
func (l *Local) Files(ctx context.Context) ([]string, error) {
	out, err := l.ask(ctx, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	if err != nil {
		return nil, err
	}
	files := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	slices.Sort(files)
	return slices.DeleteFunc(slices.Compact(files), func(p string) bool { return p == "" || Secret(p) }), nil
}
