package reap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/inspan/inspan/internal/sandbox/cgroup"
	"github.com/inspan/inspan/internal/sandbox/local"
)

// Processes ends the processes that were left, alone, and returns how many there were.
func Processes(ctx context.Context) int { return local.EndAbandoned(ctx) }

// groupWait bounds the end of one control group.
const groupWait = 5 * time.Second

// Reap removes what was left: processes first, so that nothing is written any more where files are removed. base is
// where private directories are made; empty means the system's place for temporary files. What could not be removed is
// told, and does not keep the rest from being removed.
func Reap(ctx context.Context, base string) (Found, error) {
	var f Found
	var failed []error
	f.Processes = local.EndAbandoned(ctx)
	for _, dir := range cgroup.Find().Directories() {
		for _, name := range abandoned(dir) {
			if ctx.Err() != nil {
				return f, ctx.Err()
			}
			if err := cgroup.End(filepath.Join(dir, name), time.Now().Add(groupWait)); err != nil {
				failed = append(failed, err)
				continue
			}
			f.Groups++
		}
	}
	if base == "" {
		base = os.TempDir()
	}
	for _, name := range abandoned(base) {
		if ctx.Err() != nil {
			return f, ctx.Err()
		}
		if err := local.RemoveAll(filepath.Join(base, name)); err != nil {
			failed = append(failed, fmt.Errorf("remove files that a sandbox left: %w", err))
			continue
		}
		f.Directories++
	}
	return f, errors.Join(failed...)
}

// abandoned are the directories in a directory that no one owns any more.
func abandoned(dir string) []string {
	entries, _ := os.ReadDir(dir) // what cannot be listed holds nothing of ours
	var names []string
	for _, e := range entries {
		if e.IsDir() && local.Abandoned(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names
}
