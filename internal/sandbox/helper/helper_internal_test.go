package helper

import (
	"debug/buildinfo"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
)

// said is what this program says where a test starts it as a helper.
const said = "the helper"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == said {
		_, _ = os.Stdout.WriteString(said)
		return
	}
	m.Run()
}

// build builds the helper.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), Name)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", path, "github.com/inspan/inspan/cmd/"+Name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

func TestFind(t *testing.T) {
	t.Parallel()
	path := build(t)
	built, err := buildinfo.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// own is a program that was built with the helper; change may make it another build.
	own := func(change func(*debug.BuildInfo)) *debug.BuildInfo {
		info := *built
		info.Path = "github.com/inspan/inspan/cmd/inspan"
		info.Settings = slices.Clone(built.Settings)
		change(&info)
		return &info
	}
	same := own(func(*debug.BuildInfo) {})

	t.Run("SBX-1 one of the same source is taken", func(t *testing.T) {
		f, err := find(path, same)
		if err != nil {
			t.Fatal(err)
		}
		if f.Name() != path || f.Close() != nil {
			t.Errorf("got %s", f.Name())
		}
	})
	t.Run("SBX-20 one of another version, or of another state of the source, is not", func(t *testing.T) {
		for name, change := range map[string]func(*debug.BuildInfo){
			"version": func(i *debug.BuildInfo) { i.Main.Version = "v9.9.9" },
			"module":  func(i *debug.BuildInfo) { i.Main.Path = "example.com/other" },
			"revision": func(i *debug.BuildInfo) {
				i.Settings = append(i.Settings, debug.BuildSetting{Key: "vcs.revision", Value: "0123"})
			},
		} {
			if _, err := find(path, own(change)); !errors.Is(err, ErrOther) {
				t.Errorf("%s: got %v, want ErrOther", name, err)
			}
		}
	})
	t.Run("SBX-20 another program, a text, a folder, one that no one may execute and nothing at all are not", func(t *testing.T) {
		dir := t.TempDir()
		text := filepath.Join(dir, "text")
		if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		other, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		plain := filepath.Join(dir, Name)
		if b, err := os.ReadFile(path); err != nil || os.WriteFile(plain, b, 0o644) != nil {
			t.Fatal(err)
		}
		for _, path := range []string{text, other, dir, plain} {
			if _, err := find(path, same); !errors.Is(err, ErrOther) {
				t.Errorf("%s: got %v, want ErrOther", path, err)
			}
		}
		if _, err := find(filepath.Join(dir, "none"), same); !errors.Is(err, ErrNone) {
			t.Errorf("got %v, want ErrNone", err)
		}
	})
	t.Run("SBX-1 a program that has none beside it is its own", func(t *testing.T) {
		if path, err := Installed(); !errors.Is(err, ErrNone) || Program() != self {
			t.Errorf("%s, %v, %s", path, err, Program())
		}
	})
}

func TestKeep(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		if _, err := keep(os.Stdin); !errors.Is(err, ErrNone) {
			t.Errorf("got %v, want ErrNone", err)
		}
		return
	}
	t.Run("SBX-17 it stays the same program when an upgrade puts another in its place, and whatever its children inherit", func(t *testing.T) {
		t.Parallel()
		program, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), Name)
		if err := os.WriteFile(path, b, 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if f, err = keep(f); err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho another\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), name(f), said)
		for range 20 {
			cmd.ExtraFiles = append(cmd.ExtraFiles, os.Stderr)
		}
		if out, err := cmd.Output(); err != nil || string(out) != said {
			t.Errorf("%q, %v", out, err)
		}
	})
}
