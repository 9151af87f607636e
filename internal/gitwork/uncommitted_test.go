package gitwork_test

import (
	"testing"
)

func TestUncommitted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.bay(t, r.desk())
	paths := func(want int) {
		t.Helper()
		u, err := b.desk.Uncommitted(t.Context(), b.job.Dir)
		if err != nil || u == nil || u.Paths != want || u.Branch == "" {
			t.Errorf("got %+v, %v, want %d paths", u, err, want)
		}
	}
	if u, err := b.desk.Uncommitted(t.Context(), b.job.Dir); u != nil || err != nil {
		t.Errorf("without a repository: %+v, %v", u, err)
	}
	b.begun(r, "")
	paths(0) // the files of the harness, which are there, do not count
	b.put("new/file.txt", "new\n")
	b.put("other.txt", "other\n")
	paths(2)
	b.put(".gitignore", "*.log\n")
	b.put("build.log", "ignored\n")
	paths(3)
	b.committed("all of it")
	paths(0)
}
