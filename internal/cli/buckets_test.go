package cli_test

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/cli"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/run"
)

// TestBuckets is not parallel: it sets the variables that commands read.
func TestBuckets(t *testing.T) {
	d := newDesk(t)
	name := func(state, files string) {
		t.Setenv(topology.StateVariable, state)
		t.Setenv(topology.FilesVariable, files)
	}
	name("team-state", "team-files")
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	ready := make(chan struct{})
	greeting := &ending{on: "}", end: sync.OnceFunc(func() { close(ready) })}
	var errs bytes.Buffer
	ended := make(chan int, 1) // one: the exit code
	go func() {
		ended <- cli.MainAlone(ctx, []string{"up", "--json", "--store", filepath.Join(d.dir, "store"), "--agents", filepath.Join(d.dir, "agents"), "--scripts", filepath.Join(d.dir, "scripts"),
			"--listen", "127.0.0.1:0", "--sandbox", "host", "--accept-lazy-fsync"}, strings.NewReader(""), greeting, &errs)
	}()
	select {
	case <-ready:
	case code := <-ended:
		t.Fatalf("inspan up: exit %d\n%s", code, errs.String())
	}
	defer func() {
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("inspan up: exit %d\n%s", code, errs.String())
		}
	}()
	url := decode[map[string]string](t, greeting.text.String())["url"]
	do := func(args ...string) said { return inspan(t, append(args, "--server", url)...) }
	t.Run("PERS-16 commands with the names that inspan up was given work", func(t *testing.T) {
		if s := do("run", "reader", "read the note", "--id", "run-a"); s.code != 0 || !strings.Contains(s.out, "The note is read.") {
			t.Fatalf("exit %d\n%s%s", s.code, s.out, s.err)
		}
		for _, args := range [][]string{{"inspect", "run-a"}, {"runs"}, {"agents"}, {"audit", "run-a"}, {"doctor"}} {
			if s := do(args...); s.code != 0 {
				t.Errorf("inspan %s: exit %d\n%s%s", args, s.code, s.out, s.err)
			}
		}
		if infos := decode[[]run.Info](t, do("runs", "--json").out); len(infos) != 1 || infos[0].HarnessID != "run-a" {
			t.Errorf("runs: %+v", infos)
		}
	})
	t.Run("PERS-16 commands without them say which variables to set", func(t *testing.T) {
		for _, args := range [][]string{{"runs"}, {"inspect", "run-a"}, {"run", "reader", "again"}} {
			name("", "")
			s := do(args...)
			for _, want := range []string{"INSPAN_STATE_BUCKET=team-state", "INSPAN_FILES_BUCKET=team-files"} {
				if s.code == 0 || !strings.Contains(s.err, want) {
					t.Errorf("inspan %s: exit %d, without %s\n%s%s", args, s.code, want, s.out, s.err)
				}
			}
			name("team-state", "team.files")
			if s := do(args...); s.code != 2 || !strings.Contains(s.err, "INSPAN_FILES_BUCKET is") {
				t.Errorf("inspan %s with a bad name: exit %d\n%s%s", args, s.code, s.out, s.err)
			}
		}
	})
}
