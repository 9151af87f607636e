// Package programs finds the files of programs that a sandbox must not run, so that they can be closed below the shell.
//
// Promises: a file is found where it is the program by its name, by what a link of that name leads to, by its inode or
// by its content, whatever it is called. A file that is many programs at once (busybox, or the shell itself) is never
// found by the name of one of them: it is named among those that are left.
package programs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// MaxNames is the most programs of a list.
const MaxNames = 1024

// Found is what a search came to. It is not to be changed.
type Found struct {
	// Files are real paths below the directories, in order.
	Files []string
	// Left are names that belong to a file of many programs.
	Left []string
}

// Finder remembers what it found below each directory, until a directory that holds programs has changed. The zero
// Finder is ready; it is safe for concurrent use.
type Finder struct {
	mu sync.Mutex
	// Guarded by mu: by directory and what was looked for.
	named map[string]*search
	alike map[string]*search
}

// maxKnown is how many directories are remembered.
const maxKnown = 256

// Find returns the files of programs below directories. A name is a base name, a pattern of path.Match over base names,
// or an absolute path.
func (f *Finder) Find(names, dirs []string) (Found, error) {
	if len(names) == 0 {
		return Found{}, nil
	}
	if err := Check(names); err != nil {
		return Found{}, err
	}
	roots, err := real(dirs)
	if err != nil {
		return Found{}, fmt.Errorf("find denied programs: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var found Found
	var wanted []file
	key := strings.Join(names, "\x00")
	for _, root := range roots {
		s, err := remembered(&f.named, root+"\x00"+key, func() (*search, error) { return byName(root, names, roots) })
		if err != nil {
			return Found{}, fmt.Errorf("find denied programs: %w", err)
		}
		wanted, found.Left = append(wanted, s.files...), append(found.Left, s.left...)
	}
	if len(wanted) > 0 {
		if found.Files, err = f.twins(roots, wanted); err != nil {
			return Found{}, fmt.Errorf("find denied programs: %w", err)
		}
	}
	slices.Sort(found.Left)
	found.Left = slices.Compact(found.Left)
	return found, nil
}

// twins are files, and all that are the same as one of them; mu is held.
func (f *Finder) twins(roots []string, wanted []file) ([]string, error) {
	key := ""
	var paths []string
	for _, w := range wanted {
		key += fmt.Sprintf("\x00%s %d %d", w.path, w.size, w.changed)
		paths = append(paths, w.path)
	}
	for _, root := range roots {
		s, err := remembered(&f.alike, root+key, func() (*search, error) { return byContent(root, wanted) })
		if err != nil {
			return nil, err
		}
		for _, twin := range s.files {
			paths = append(paths, twin.path)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// remembered is a search that was made before, where its directories are as they were, or a new one.
func remembered(known *map[string]*search, key string, look func() (*search, error)) (*search, error) {
	if s := (*known)[key]; s != nil && s.holds() {
		return s, nil
	}
	s, err := look()
	if err != nil {
		return nil, err
	}
	if *known == nil || len(*known) >= maxKnown {
		*known = make(map[string]*search)
	}
	(*known)[key] = s
	return s, nil
}

// Check returns an error for names that cannot be those of programs.
func Check(names []string) error {
	if len(names) > MaxNames {
		return fmt.Errorf("%d denied programs, at most %d", len(names), MaxNames)
	}
	for _, name := range names {
		if _, err := path.Match(name, ""); err != nil || name == "" || strings.Contains(name, "/") && !path.IsAbs(name) ||
			strings.ContainsRune(name, 0) {
			return fmt.Errorf("denied program %q: want a base name, a pattern of one, or an absolute path", name)
		}
	}
	return nil
}

// file is one that was found.
type file struct {
	path          string
	size, changed int64
}

// search is what was found below a directory, and the directories that it depends on as they were then.
type search struct {
	files []file
	left  []string
	dirs  map[string]string
}

// holds reports whether the directories are as they were.
func (s *search) holds() bool {
	for dir, was := range s.dirs {
		if stamp(dir) != was {
			return false
		}
	}
	return true
}

// stamp tells apart what a directory holds; it is empty for one that is gone.
func stamp(dir string) string {
	info, err := os.Stat(dir)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.ModTime().UnixNano())
}

// depends remembers a directory that holds programs.
func (s *search) depends(dir, root string) {
	if base := path.Base(dir); base == "bin" || base == "sbin" || dir == root {
		s.dirs[dir] = stamp(dir)
	}
}

// real resolves links, and leaves out what is missing or below another.
func real(dirs []string) ([]string, error) {
	var list []string
	for _, dir := range dirs {
		at, err := filepath.EvalSymlinks(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, at)
	}
	slices.Sort(list)
	return slices.CompactFunc(list, func(kept, next string) bool { return within(next, kept) }), nil
}

// byName finds the programs of some names below a directory, and what links of such names lead to.
func byName(root string, names, roots []string) (*search, error) {
	s := &search{dirs: map[string]string{}}
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		switch {
		case err != nil: // what is gone, or closed to the service, is closed to its commands too
			return nil //nolint:nilerr // see above
		case d.IsDir():
			s.depends(at, root)
			return nil
		case !wants(names, at) || !d.Type().IsRegular() && d.Type() != fs.ModeSymlink:
			return nil
		}
		to, err := filepath.EvalSymlinks(at)
		if err != nil || !slices.ContainsFunc(roots, func(root string) bool { return within(to, root) }) {
			return nil //nolint:nilerr // it leads nowhere
		}
		info, err := os.Stat(to)
		switch {
		case err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		case path.Base(to) != path.Base(at) && shared(to, info):
			s.left = append(s.left, path.Base(at))
		default:
			s.files = append(s.files, file{to, info.Size(), info.ModTime().UnixNano()})
			s.dirs[path.Dir(to)] = stamp(path.Dir(to))
		}
		return nil
	})
	return s, err
}

// wants reports whether a path is that of a program on a list.
func wants(names []string, at string) bool {
	base := path.Base(at)
	return slices.ContainsFunc(names, func(name string) bool {
		if path.IsAbs(name) {
			return name == at
		}
		ok, _ := path.Match(name, base) // patterns were checked
		return ok
	})
}

// many are programs that are many, by the name under which they were called.
var many = [...]string{"busybox", "toybox", "coreutils", "systemctl"}

// shared reports whether a file is many programs.
func shared(at string, info fs.FileInfo) bool {
	if slices.Contains(many[:], path.Base(at)) {
		return true
	}
	for _, shell := range []string{"/bin/sh", "/bin/bash", "/usr/bin/env"} {
		if other, err := os.Stat(shell); err == nil && os.SameFile(info, other) {
			return true
		}
	}
	return false
}

// byContent finds what is the same as one of some files below a directory.
func byContent(root string, wanted []file) (*search, error) {
	s := &search{dirs: map[string]string{}}
	sums := map[int64][][sha256.Size]byte{}
	for _, w := range wanted {
		sum, err := digest(w.path)
		if err != nil {
			return nil, err
		}
		sums[w.size] = append(sums[w.size], sum)
	}
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // as above
		case d.IsDir():
			s.depends(at, root)
			return nil
		case !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err != nil || sums[info.Size()] == nil {
			return nil //nolint:nilerr // it has gone
		}
		if sum, err := digest(at); err == nil && slices.Contains(sums[info.Size()], sum) {
			s.files = append(s.files, file{path: at, size: info.Size()})
			s.dirs[path.Dir(at)] = stamp(path.Dir(at))
		}
		return nil
	})
	return s, err
}

func digest(at string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(at)
	if err != nil {
		return sum, err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum, err
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

func within(at, dir string) bool {
	return at == dir || strings.HasPrefix(at, strings.TrimSuffix(dir, "/")+"/")
}
