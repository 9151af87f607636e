package mirror

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// entry is one file, directory or link of a tree.
type entry struct {
	kind byte // f, d or l
	mode fs.FileMode
	size int64
	link string
	// stamp tells content apart without reading it: times and number of the file. Empty for directories and links.
	stamp string
	time  time.Time
}

// same reports whether nothing of an entry changed.
func (e entry) same(o entry) bool {
	return e.kind == o.kind && e.link == o.link && e.stamp == o.stamp && e.size == o.size &&
		(e.kind == 'l' || e.mode == o.mode)
}

// tree is entries by path, which is relative and has no "." or ".." in it.
type tree map[string]entry

// ordered are the paths of a tree, parents first.
func (t tree) ordered() []string {
	paths := make([]string, 0, len(t))
	for p := range t {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return paths
}

// scan reads the tree of this machine, without what is denied. What is no file, directory or link is left out, as are
// files that are written aside.
func scan(root *os.Root, denied map[string]bool) (tree, error) {
	s := scanner{root: root, denied: denied, found: tree{}}
	if err := s.dir("."); err != nil {
		return nil, fmt.Errorf("read the workspace: %w", err)
	}
	return s.found, nil
}

type scanner struct {
	root   *os.Root
	denied map[string]bool
	found  tree
	bytes  int64
}

func (s *scanner) dir(at string) error {
	f, err := s.root.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	list, err := f.ReadDir(-1)
	if err := errors.Join(err, f.Close()); err != nil && !isMissing(err) {
		return err
	}
	for _, d := range list {
		name := path.Join(at, d.Name())
		if s.denied[name] || aside(d.Name()) {
			continue
		}
		info, err := s.root.Lstat(name)
		if isMissing(err) {
			continue
		}
		if err != nil {
			return err
		}
		if err := s.add(name, info); err != nil {
			return err
		}
	}
	return nil
}

func (s *scanner) add(name string, info fs.FileInfo) error {
	e, ok := ours(info)
	if !ok {
		return nil
	}
	if e.kind == 'l' {
		var err error
		if e.link, err = s.root.Readlink(name); err != nil {
			return nil // it went, or is a link no more: the next look sees it
		}
	}
	s.found[name] = e
	s.bytes += e.size
	if err := within(len(s.found), e.size, s.bytes, name); err != nil {
		return err
	}
	if e.kind == 'd' {
		return s.dir(name)
	}
	return nil
}

// within checks the limits.
func within(entries int, size, total int64, name string) error {
	switch {
	case entries > MaxEntries:
		return fmt.Errorf("%w: more than %d files", ErrTooMuch, MaxEntries)
	case size > MaxFile:
		return fmt.Errorf("%w: %q has %d bytes, at most %d", ErrTooMuch, name, size, int64(MaxFile))
	case total > MaxTree:
		return fmt.Errorf("%w: more than %d bytes", ErrTooMuch, int64(MaxTree))
	}
	return nil
}

// ours is the entry of a file of this machine.
func ours(info fs.FileInfo) (entry, bool) {
	e := entry{mode: info.Mode().Perm(), time: info.ModTime()}
	switch {
	case info.Mode().IsRegular():
		e.kind, e.size = 'f', info.Size()
		e.stamp = fmt.Sprint(info.ModTime().UnixNano(), number(info))
	case info.IsDir():
		e.kind = 'd'
	case info.Mode()&fs.ModeSymlink != 0:
		e.kind = 'l'
	default:
		return entry{}, false
	}
	return e, true
}

// aside reports whether a name is that of a file which is being written and will be renamed.
func aside(name string) bool {
	rest, ok := strings.CutPrefix(name, asidePrefix)
	return ok && len(rest) == 26 && strings.ToUpper(rest) == rest
}

const asidePrefix = ".inspan-"

func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// fields of an entry in a listing.
const fields = 8

// parse reads the listing of the other machine: hostile bytes. It leaves out what is denied, and what is no file,
// directory or link.
func parse(data []byte, denied map[string]bool, folds bool) (tree, error) {
	parts := bytes.Split(data, []byte{0})
	if len(parts) < 2 || string(parts[len(parts)-2]) != "end" || len(parts[len(parts)-1]) > 0 ||
		(len(parts)-2)%fields != 0 {
		return nil, fmt.Errorf("%w: it is cut off", ErrHostile)
	}
	found, folded := tree{}, map[string]string{}
	var total int64
	for parts = parts[:len(parts)-2]; len(parts) > 0; parts = parts[fields:] {
		name := string(parts[fields-1])
		if err := checkName(name); err != nil {
			return nil, err
		}
		e, ok, err := theirs(parts[:fields-1])
		if err != nil {
			return nil, fmt.Errorf("%w: %q: %w", ErrHostile, name, err)
		}
		if !ok || hidden(name, denied) {
			continue
		}
		if _, twice := found[name]; twice {
			return nil, fmt.Errorf("%w: %q occurs twice", ErrHostile, name)
		}
		if other, twice := folded[strings.ToLower(name)]; folds && twice {
			return nil, fmt.Errorf("%w: %q and %q are one file on this machine", ErrHostile, name, other)
		}
		found[name], folded[strings.ToLower(name)] = e, name
		total += e.size
		if err := within(len(found), e.size, total, name); err != nil {
			return nil, err
		}
	}
	for name := range found {
		if dir := path.Dir(name); dir != "." && found[dir].kind != 'd' {
			return nil, fmt.Errorf("%w: the parent of %q is not a directory", ErrHostile, name)
		}
	}
	return found, nil
}

// checkName refuses what find does not print of a tree.
func checkName(name string) error {
	if name == "" || len(name) > MaxPath || path.IsAbs(name) || path.Clean(name) != name || name == "." || name == ".." ||
		strings.HasPrefix(name, "../") {
		return fmt.Errorf("%w: the name %.200q", ErrHostile, name)
	}
	return nil
}

// hidden reports whether a path or a directory above it is denied or written aside.
func hidden(name string, denied map[string]bool) bool {
	for ; name != "."; name = path.Dir(name) {
		if denied[name] || aside(path.Base(name)) {
			return true
		}
	}
	return false
}

// theirs reads type, mode, size, two times, number and link.
func theirs(f [][]byte) (entry, bool, error) {
	var e entry
	if len(f[0]) == 1 {
		e.kind = f[0][0]
	}
	switch {
	case e.kind == 'p' || e.kind == 's' || e.kind == 'b' || e.kind == 'c':
		return e, false, nil
	case e.kind != 'f' && e.kind != 'd' && e.kind != 'l':
		return e, false, errors.New("its type")
	}
	mode, err := strconv.ParseUint(string(f[1]), 8, 16)
	if err != nil {
		return e, false, errors.New("its mode")
	}
	e.mode = fs.FileMode(mode) & fs.ModePerm
	if e.kind == 'l' {
		if e.link = string(f[6]); e.link == "" || len(e.link) > MaxLink {
			return e, false, errors.New("its link")
		}
	}
	if e.kind != 'f' {
		return e, true, nil
	}
	if e.size, err = strconv.ParseInt(string(f[2]), 10, 64); err != nil || e.size < 0 {
		return e, false, errors.New("its size")
	}
	if e.time, err = instant(string(f[3])); err != nil {
		return e, false, errors.New("its time")
	}
	if len(f[4]) > 64 || len(f[5]) > 64 {
		return e, false, errors.New("its number")
	}
	e.stamp = string(f[3]) + " " + string(f[4]) + " " + string(f[5])
	return e, true, nil
}

// instant reads seconds and their decimal fraction.
func instant(text string) (time.Time, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	sec, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || len(fraction) > 32 || sec > 1<<40 || sec < -(1<<40) {
		return time.Time{}, errors.New("no time")
	}
	nano, err := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	if err != nil || nano < 0 {
		return time.Time{}, errors.New("no time")
	}
	return time.Unix(sec, nano), nil
}
