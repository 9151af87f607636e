// Package helper knows the program that is started in the place of this one where it would start itself: as the
// launcher of a command, as the way out of a sandbox, as the wall around git, or in a container.
//
// Promises: the helper is inspan-within beside this program, built from the same source, or else this program itself,
// which is always right and starts in tens of milliseconds rather than in three. It stays the same file as long as this
// process lives, also when an upgrade puts others in both places.
package helper

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
)

// Name of the small helper, and the package that it is built from.
const (
	Name = "inspan-within"
	from = "/cmd/" + Name
)

// self is this program, whatever its path leads to by now.
const self = "/proc/self/exe"

// ErrNone means that there is no helper beside this program, ErrOther that there is one of another build.
var (
	ErrNone  = errors.New("no " + Name + " in the directory of this program")
	ErrOther = errors.New("it was not built from the same source as this program, or is not a program")
)

// Program returns the path by which a child of this process starts the helper.
func Program() string {
	if f, err := opened(); err == nil {
		return name(f)
	}
	return self
}

// name is a file as a child finds it before it closes what it does not inherit.
func name(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// Open opens the helper for reading, to be handed to another process.
func Open() (*os.File, error) { return os.Open(Program()) }

// Installed returns the path of the helper beside this program; else ErrNone or ErrOther, and this program is its own
// helper.
func Installed() (string, error) {
	f, err := opened()
	if err != nil {
		return "", err
	}
	return f.Name(), nil
}

// opened opens the helper once, and keeps it.
var opened = sync.OnceValues(func() (*os.File, error) {
	path, err := os.Executable()
	own, ok := debug.ReadBuildInfo()
	if err != nil || !ok {
		return nil, errors.Join(ErrNone, err)
	}
	f, err := find(filepath.Join(filepath.Dir(path), Name), own)
	if err != nil {
		return nil, err
	}
	return keep(f)
})

// find opens a helper that was built from the same source as a program.
func find(path string, own *debug.BuildInfo) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := fits(f, own); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return f, nil
}

// fits checks that a file is a helper of the same build as own; the error wraps ErrOther where it is not.
func fits(f *os.File, own *debug.BuildInfo) error {
	info, err := buildinfo.Read(f)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOther, err)
	}
	file, err := f.Stat()
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrOther, err)
	case file.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%w: the file is not executable", ErrOther)
	case !strings.HasSuffix(info.Path, from) || built(info) != built(own):
		return ErrOther
	}
	return nil
}

// built says from what a program was built: module, version and state of the source, as far as Go was told.
func built(info *debug.BuildInfo) string {
	text := info.Main.Path + " " + info.Main.Version
	for _, s := range info.Settings {
		if strings.HasPrefix(s.Key, "vcs") {
			text += " " + s.Key + "=" + s.Value
		}
	}
	return text
}
