package recovery

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/archive/at"
	"github.com/inspan/inspan/internal/archive/at/s3test"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// TestBucket does not run beside other tests: the address of the storage is in the environment.
func TestBucket(t *testing.T) {
	storage, where := s3test.Serve(t)
	p := newPlace(t, "lab")
	p.archive = where
	p.keeps()
	if storage != nil {
		storage.Down(true)
	}
	p.up()
	t.Run("EVT-9 a station works while the storage of its archive does not, and archives when it does", func(t *testing.T) {
		p.park(events.Task{ID: "files", Agent: "keeper", Task: "keep"})
		if storage != nil {
			if names := storage.Files(); len(names) > 0 {
				t.Fatalf("storage that is down has %q", names)
			}
			storage.Down(false)
		}
		archived(t, where, p.await("files", "paused", func(s run.State) bool { return s.Status == events.Paused }))
	})
	p.down() // which saves what is left
	p.wipe()
	t.Run("EVT-9 WS-15 a wiped station is refilled from a bucket with the files, artifacts and branches of its runs, which go on", func(t *testing.T) {
		list := inspan(t, 0, "restore", "--from", where, "--station", "lab", "--list")
		if !strings.Contains(list, "files") || !strings.Contains(list, "paused") {
			t.Errorf("what is listed: %s", list)
		}
		inspan(t, 0, "restore", "--from", where, "--station", "lab", "--store", filepath.Join(p.dir, "store"))
		p.up()
		if out := p.do(0, "restore", "--from", where); !strings.Contains(out, "as they are") {
			t.Errorf("a second restore: %s", out)
		}
		p.goesOn("files")
	})
	t.Run("CLI-9 a bucket that has no archive is named", func(t *testing.T) {
		if out := inspan(t, 5, "restore", "--from", where+"/none", "--station", "lab", "--list"); !strings.Contains(out, "is not an archive") {
			t.Errorf("got %s", out)
		}
	})
}

// archived waits until the archive has a run as the station has it.
func archived(t *testing.T, where string, s run.State) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		d, err := at.Open(t.Context(), where)
		if err == nil {
			m, ok, e := d.Manifest(t.Context(), "lab", "files")
			if err = e; ok && m.Sequence == s.Sequence {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("the archive does not have event %d: %v", s.Sequence, err)
		}
	}
}
