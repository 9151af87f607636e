package cli_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/topology"
)

func TestAudit(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	if err := os.MkdirAll(filepath.Join(d.dir, "store", "workspace", "run", "seen"), 0o755); err != nil {
		t.Fatal(err)
	}
	d.want(0, nil, "run", "reader", "look", "--id", "seen")
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); { // the end is anchored soon after it is said
		pause(t)
		if r := decode[audit.Report](t, d.want(0, nil, "audit", "seen", "--json").out); r.Anchored == r.Events {
			break
		}
	}
	file, anchor := filepath.Join(d.dir, "seen.jsonl"), filepath.Join(d.dir, "seen.anchor")
	evs := d.want(0, nil, "export", "seen", "--anchor", anchor).out
	write := func(t *testing.T, text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("SAFE-3a CLI-9 a run of the station is sound, and its end is anchored", func(t *testing.T) {
		d.want(0, []string{"is sound", "signed at event"}, "audit", "seen")
		r := decode[audit.Report](t, d.want(0, nil, "audit", "seen", "--json").out)
		if !r.Sound || !r.Signed || r.Anchored != r.Events || r.Events < 8 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("SAFE-3b an exported log is checked without a station; what is changed or cut off is named", func(t *testing.T) {
		write(t, evs)
		if s := inspan(t, "audit", "--file", file, "--anchor", anchor); s.code != 0 || !strings.Contains(s.out, "signature was not checked") {
			t.Errorf("exit %d %s%s", s.code, s.out, s.err)
		}
		if s := inspan(t, "audit", "--file", file); s.code != 0 || strings.Contains(s.out, "is sound.") || !strings.Contains(s.out, "not vouched for") {
			t.Errorf("exit %d %s%s", s.code, s.out, s.err)
		}
		lines := strings.SplitAfter(evs, "\n")
		write(t, strings.Join(lines[:3], ""))
		if s := inspan(t, "audit", "--file", file, "--anchor", anchor); s.code != 1 || !strings.Contains(s.err, "event 4: is missing") {
			t.Errorf("exit %d %s%s", s.code, s.out, s.err)
		}
		write(t, strings.Replace(evs, "I look.", "I lied.", 1))
		s := inspan(t, "audit", "--file", file, "--json")
		if r := decode[audit.Report](t, s.out); s.code != 1 || r.Sound || r.First == nil || r.First.Sequence == 0 {
			t.Errorf("exit %d %+v", s.code, r)
		}
	})
	t.Run("SAFE-3 CLI-9 a changed last event is never called sound without an anchor", func(t *testing.T) {
		whole := strings.SplitAfter(evs, "\n")
		last := whole[len(whole)-2]
		write(t, strings.Join(whole[:len(whole)-2], "")+strings.Replace(last, `"time":"20`, `"time":"21`, 1))
		s := inspan(t, "audit", "--file", file, "--json")
		if r := decode[audit.Report](t, s.out); r.Sound || r.SoundUpTo != r.Events-1 {
			t.Errorf("exit %d %+v", s.code, r)
		}
		if s := inspan(t, "audit", "--file", file); strings.Contains(s.out, "is sound.") || !strings.Contains(s.out, fmt.Sprintf("sound up to event %d;", len(whole)-2)) {
			t.Errorf("exit %d %s%s", s.code, s.out, s.err)
		}
		if s := inspan(t, "audit", "--file", file, "--anchor", anchor); s.code != 1 || !strings.Contains(s.err, "another event at this position") {
			t.Errorf("with the anchor: exit %d %s%s", s.code, s.out, s.err)
		}
	})
	t.Run("SAFE-3 CLI-9 all runs of a station are checked at once", func(t *testing.T) {
		d.want(0, []string{"seen", "sound", "No fault in 1 run"}, "audit", "--all")
		all := decode[operator.Audits](t, d.want(0, nil, "audit", "--all", "--json").out)
		if !all.Sound || len(all.Runs) != 1 || all.Runs[0].Run != "seen" || all.Faulty+all.Unvouched > 0 {
			t.Errorf("%+v", all)
		}
		d.want(2, nil, "audit", "--all", "seen")
		stranger := filepath.Join(d.dir, "lost.anchor") // of a run that is nowhere any more
		b, err := os.ReadFile(anchor)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(stranger, []byte(strings.Replace(string(b), `"runid": "seen"`, `"runid": "lost"`, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		d.want(1, []string{"lost", "signature of the anchor is wrong"}, "audit", "--all", "--anchor", stranger)
	})
	t.Run("CLI-9 SAFE-3 wrong words, keys and names have their exit codes", func(t *testing.T) {
		d.want(2, nil, "audit")
		d.want(2, nil, "audit", "seen", "--file", file)
		d.want(2, []string{"64 hex digits"}, "audit", "seen", "--key", "abc")
		d.want(2, nil, "audit", "seen", "--anchor", file+".none")
		d.want(5, nil, "audit", "nobody")
		d.want(5, nil, "audit", "--file", file+".none")
		d.want(1, []string{"not a trusted key"}, "audit", "seen", "--key", strings.Repeat("ab", 32))
	})
	t.Run("SAFE-3 the signing key never reaches the station", func(t *testing.T) {
		seed, err := os.ReadFile(filepath.Join(d.dir, "store", "anchor.key"))
		if err != nil || len(strings.TrimSpace(string(seed))) != 64 {
			t.Fatalf("%v", err)
		}
		// No user of a running station reads all keys, so that the files of its server are looked at.
		seen := false
		err = filepath.WalkDir(filepath.Join(d.dir, "store"), func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() || e.Name() == "anchor.key" {
				return err
			}
			b, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil // the server replaced it
			}
			if seen = seen || strings.Contains(string(b), topology.ChildKeyKey); strings.Contains(string(b), strings.TrimSpace(string(seed))) {
				t.Errorf("%s holds it", path)
			}
			return err
		})
		if err != nil || !seen {
			t.Errorf("no file has the key %s, which the station has: %v", topology.ChildKeyKey, err)
		}
	})
}
