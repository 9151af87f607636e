package run_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// frozen lists the files of a folder of histories with their digests. Lines are added to it, none is ever changed.
const frozen = "FROZEN.sha256"

// thaw compares a folder with its list and says what is not as it was.
func thaw(dir string) (names []string, faults []string) {
	list, err := os.ReadFile(filepath.Join(dir, frozen))
	if err != nil {
		return nil, []string{err.Error()}
	}
	want := map[string]string{}
	for line := range strings.Lines(string(list)) {
		digest, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		want[name] = digest
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json*"))
	if err != nil {
		return nil, []string{err.Error()}
	}
	for _, file := range files {
		name := filepath.Base(file)
		b, err := os.ReadFile(file)
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		sum := sha256.Sum256(b)
		switch got := hex.EncodeToString(sum[:]); want[name] {
		case got:
		case "":
			faults = append(faults, fmt.Sprintf("%s is not in %s: add the line %s  %s", name, frozen, got, name))
		default:
			faults = append(faults, name+" was changed: a frozen history stays as it was for ever, add another")
		}
		delete(want, name)
		names = append(names, name)
	}
	for name := range want {
		faults = append(faults, name+" is gone: a frozen history stays for ever")
	}
	return names, faults
}

func TestFrozenHistories(t *testing.T) {
	t.Parallel()
	dirs, err := filepath.Glob(filepath.Join(histories, "v*"))
	if err != nil || len(dirs) < run.SchemaVersion {
		t.Fatalf("%d folders, %v: want one for each schema version up to %d", len(dirs), err, run.SchemaVersion)
	}
	for _, dir := range dirs {
		t.Run("EVT-8 EVT-6 the histories of schema "+filepath.Base(dir)+" are as they were, and fold to the states beside them", func(t *testing.T) {
			t.Parallel()
			names, faults := thaw(dir)
			for _, f := range faults {
				t.Error(f)
			}
			logs := 0
			for _, name := range names {
				story, ok := strings.CutSuffix(name, ".jsonl")
				if !ok {
					continue
				}
				logs++
				b, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}
				want, err := os.ReadFile(filepath.Join(dir, story+".state.json"))
				if err != nil {
					t.Fatal(err)
				}
				s, err := run.Fold(run.State{}, runtest.Split(b)...)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				holds(t, "state of "+story, generic(t, []byte(document(t, s))), generic(t, want))
			}
			if logs < 4 {
				t.Errorf("%d logs, want at least 4", logs)
			}
		})
	}
	t.Run("EVT-8 a frozen file that is changed, added or removed is refused", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		write := func(name, text string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		sum := sha256.Sum256([]byte("{}\n"))
		write(frozen, hex.EncodeToString(sum[:])+"  a.jsonl\n")
		write("a.jsonl", "{}\n")
		if _, faults := thaw(dir); len(faults) != 0 {
			t.Errorf("untouched: %q", faults)
		}
		write("a.jsonl", "{} \n")
		write("b.jsonl", "{}\n")
		if _, faults := thaw(dir); len(faults) != 2 {
			t.Errorf("changed and added: %q", faults)
		}
		if err := os.Remove(filepath.Join(dir, "a.jsonl")); err != nil {
			t.Fatal(err)
		}
		if _, faults := thaw(dir); len(faults) != 2 {
			t.Errorf("removed and added: %q", faults)
		}
	})
}
