package storecheck

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestUnborn has streams whose creation was interrupted, as when a station is killed at its first start or a restore is.
func TestUnborn(t *testing.T) {
	t.Parallel()
	k := newBlock("LOG_s", 1, logSubjects)
	b, _ := some(k, 1, 6)
	for _, c := range []struct {
		name string
		// gone are the files that were not written yet, empty those that have no bytes.
		gone, empty []string
		marks, lost bool
	}{
		{"the folder alone", []string{metaFile, metaSum, "msgs/1.blk"}, nil, false, false},
		{"the configuration without its checksum", []string{metaSum, "msgs/1.blk"}, nil, false, false},
		{"the folder with an empty block", []string{metaFile, metaSum}, []string{"msgs/1.blk"}, false, false},
		{"an empty configuration", []string{metaSum, "msgs/1.blk"}, []string{metaFile}, false, false},
		{"the checksum is empty", []string{"msgs/1.blk"}, []string{metaSum}, false, false},
		{"a stream with messages", []string{metaFile, metaSum}, nil, false, true},
		{"a stream that the marks know", []string{metaFile, metaSum, "msgs/1.blk"}, nil, true, true},
	} {
		t.Run("SAFE-2 "+c.name, func(t *testing.T) {
			t.Parallel()
			dir, path, m := store(t, b, 6, false)
			folder := filepath.Dir(filepath.Dir(path))
			for _, f := range c.gone {
				if err := os.Remove(filepath.Join(folder, filepath.FromSlash(f))); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range c.empty {
				if err := os.Truncate(filepath.Join(folder, f), 0); err != nil {
					t.Fatal(err)
				}
			}
			if !c.marks {
				m = nil
			}
			r, err := Run(Config{Store: dir, Streams: "nats", Marks: m, Now: time.Now()})
			if err != nil {
				t.Fatal(err)
			}
			if r.Damaged() != c.lost {
				t.Fatalf("damaged: %v, want %v: %+v", r.Damaged(), c.lost, r.Findings)
			}
			if c.lost {
				return
			}
			for _, f := range []string{metaFile, metaSum} { // a server does not write over them
				if _, err := os.Stat(filepath.Join(folder, f)); err == nil {
					t.Errorf("%s is still there", f)
				}
			}
			if again, err := Run(Config{Store: dir, Streams: "nats", Now: time.Now()}); err != nil || again.Damaged() {
				t.Errorf("checked again: %+v %v", again.Findings, err)
			}
		})
	}
}
