package local_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox/local"
)

func TestEnv(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, mode := range map[string]fs.FileMode{"tool": 0o755, "plain": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("TOOL-17 later entries win and the base is not changed", func(t *testing.T) {
		t.Parallel()
		base := local.FixedEnv("/h", "/t")
		got, err := base.With([]string{"A=1", "LANG=C"}, []string{"A=2=3"})
		if err != nil || got["A"] != "2=3" || got["LANG"] != "C" || base["LANG"] != "C.UTF-8" || base["A"] != "" {
			t.Errorf("got %v, %v; base %v", got, err, base)
		}
		if list := got.List(); !slices.IsSorted(list) || len(list) != len(got) {
			t.Errorf("got %q", list)
		}
	})
	t.Run("TOOL-17 the marker cannot be forged and a bad entry does not show its value", func(t *testing.T) {
		t.Parallel()
		for _, entry := range []string{local.MarkerName + "=x", "A", "=secretvalue", "A=secretvalue\x00"} {
			_, err := local.FixedEnv("", "").With([]string{entry})
			if err == nil || strings.Contains(err.Error(), "secretvalue") {
				t.Errorf("%q: got %v", entry, err)
			}
		}
	})
	t.Run("WS-12 programs are found in PATH, never through a relative entry", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			path, program, want string
			err                 error
		}{
			{dir, "tool", filepath.Join(dir, "tool"), nil},
			{"/none:" + dir, "tool", filepath.Join(dir, "tool"), nil},
			{".", "tool", "", exec.ErrNotFound},
			{"", "tool", "", exec.ErrNotFound},
			{dir, "plain", "", exec.ErrNotFound},
			{dir, "missing", "", exec.ErrNotFound},
			{"", "./tool", filepath.Join(dir, "tool"), nil},
			{"", filepath.Join(dir, "tool"), filepath.Join(dir, "tool"), nil},
			{"", "./plain", "", fs.ErrPermission},
			{"", "./missing", "", exec.ErrNotFound},
		} {
			got, err := local.Env{"PATH": c.path}.Look(c.program, dir)
			if got != c.want || !errors.Is(err, c.err) {
				t.Errorf("PATH=%s %s: got %q, %v, want %q, %v", c.path, c.program, got, err, c.want, c.err)
			}
		}
	})
}
