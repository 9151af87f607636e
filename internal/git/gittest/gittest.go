// Package gittest gives tests repositories at little cost: to make one takes git a dozen processes.
package gittest

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
)

// Template is a directory that is made once in a test program and then copied. The zero value is ready to use.
type Template struct {
	once  sync.Once
	files fstest.MapFS
}

// Copy makes the directory to, which is not there yet, a copy of what the first call had fill make in it.
func (m *Template) Copy(t testing.TB, to string, fill func(dir string)) {
	t.Helper()
	m.once.Do(func() {
		dir := t.TempDir()
		fill(dir)
		files, err := kept(dir)
		if err != nil {
			t.Fatal(err)
		}
		m.files = files
	})
	if m.files == nil {
		t.Fatal("the template could not be made: see the test that was first")
	}
	if err := os.CopyFS(to, m.files); err != nil {
		t.Fatal(err)
	}
}

// Holds reports whether a copy in dir still has the refs that the template has.
func (m *Template) Holds(dir string) bool {
	has, err := kept(dir)
	if err != nil || m.files == nil {
		return false
	}
	maps.DeleteFunc(has, notRef)
	want := maps.Clone(m.files)
	maps.DeleteFunc(want, notRef)
	return maps.EqualFunc(has, want, func(a, b *fstest.MapFile) bool { return bytes.Equal(a.Data, b.Data) })
}

func notRef(path string, f *fstest.MapFile) bool {
	return f.Mode.IsDir() || path != "HEAD" && path != "packed-refs" && !strings.HasPrefix(path, "refs/")
}

// kept is all of a directory.
func kept(dir string) (fstest.MapFS, error) {
	all, top := fstest.MapFS{}, os.DirFS(dir)
	return all, fs.WalkDir(top, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		f := &fstest.MapFile{Mode: info.Mode()}
		if d.Type().IsRegular() {
			f.Data, err = fs.ReadFile(top, path)
		}
		all[path] = f
		return err
	})
}
