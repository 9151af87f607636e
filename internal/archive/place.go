package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/disk"
)

// Place is where the files of an archive are. Names have slashes between their parts and no other path to the place.
type Place interface {
	// Read returns an error of fs.ErrNotExist where there is no such file.
	Read(ctx context.Context, name string) ([]byte, Version, error)
	// Write puts a file in place at once: after a crash there is the old one or the new one, and the new one is stored
	// when Write returns. In a shared place it does so only over the version that it is given; else it changes nothing,
	// and the error is ErrChanged. It returns the version that is there then.
	Write(ctx context.Context, name string, b []byte, over Version) (Version, error)
	// Stat returns an error of fs.ErrNotExist where there is no such file.
	Stat(ctx context.Context, name string) (Stat, error)
	// List visits the files whose names begin with a prefix that ends in "/" or is empty.
	List(ctx context.Context, prefix string, visit func(name string, s Stat) error) error
	// Remove does nothing where there is no such file.
	Remove(ctx context.Context, name string) error
	// Shared says that other programs may write there at the same time, and that it is reached over a network.
	Shared() bool
	// Probe reports why the place cannot hold an archive that programs share, where it is one that they do.
	Probe(ctx context.Context) error
	// String names the place for people.
	String() string
	Close() error
}

// Version says which content of a file was read, in a shared place; "" is that there was none.
type Version string

// Any is the version of a file that may be written over whatever it is.
const Any Version = "any"

// Stat is what is known of a file without reading it.
type Stat struct {
	Size int64
	// Age is since when the file is as it is.
	Age time.Duration
}

// ErrChanged means that another program wrote a file after it was read here. What was to be written was made of what it
// was: it is made again.
var ErrChanged = errors.New("another program changed it meanwhile")

// folder is a place in a file system. lock is nil where it is only read.
type folder struct {
	path string
	lock *disk.Lock
}

var _ Place = folder{}

// Folder is a place in a file system.
func Folder(path string) Place { return folder{path: path} }

func (f folder) at(name string) string { return filepath.Join(f.path, filepath.FromSlash(name)) }

func (f folder) Read(_ context.Context, name string) ([]byte, Version, error) {
	b, err := os.ReadFile(f.at(name))
	return b, "", err
}

func (f folder) Write(_ context.Context, name string, b []byte, _ Version) (Version, error) {
	if err := os.MkdirAll(filepath.Dir(f.at(name)), 0o700); err != nil {
		return "", err
	}
	return "", disk.Replace(f.at(name), b, 0o600)
}

func (f folder) Stat(_ context.Context, name string) (Stat, error) {
	info, err := os.Stat(f.at(name))
	if err != nil {
		return Stat{}, err
	}
	return statOf(info), nil
}

func statOf(info fs.FileInfo) Stat { return Stat{Size: info.Size(), Age: time.Since(info.ModTime())} }

func (f folder) List(ctx context.Context, prefix string, visit func(name string, s Stat) error) error {
	err := filepath.WalkDir(f.at(prefix), func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(f.path, p)
		if err != nil {
			return err
		}
		return visit(filepath.ToSlash(rel), statOf(info))
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Remove also removes the folder of the file where it is empty then.
func (f folder) Remove(_ context.Context, name string) error {
	err := os.Remove(f.at(name))
	if dir := filepath.Dir(f.at(name)); dir != f.path {
		_ = os.Remove(dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (f folder) Shared() bool                { return false }
func (f folder) Probe(context.Context) error { return nil }
func (f folder) String() string              { return f.path }

func (f folder) Close() error {
	if f.lock == nil {
		return nil
	}
	return f.lock.Close()
}

// names lists the files of a folder of the place that end so, without the folder and the end.
func names(ctx context.Context, p Place, folder, end string) (all []string, err error) {
	err = p.List(ctx, folder, func(name string, _ Stat) error {
		if name, ok := strings.CutSuffix(strings.TrimPrefix(name, folder), end); ok {
			all = append(all, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list %s of archive %s: %w", folder, p, err)
	}
	return all, nil
}
