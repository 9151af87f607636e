package mirror

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// pull brings back what commands changed there, as a listing tells it, and returns how many files went or changed again
// while they were brought: look again for them.
func (c *copied) pull(ctx context.Context, listing string) (missing int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	listed, err := parse([]byte(listing), c.denied, c.folds)
	if err != nil {
		return 0, err
	}
	var changed, removed []string
	for _, name := range listed.ordered() {
		if !listed[name].same(c.there[name]) {
			changed = append(changed, name)
		}
	}
	for _, name := range c.there.ordered() {
		if l, ok := listed[name]; !ok || l.kind != c.there[name].kind {
			removed = append(removed, name)
		}
	}
	if len(changed)+len(removed) == 0 {
		return 0, nil
	}
	now, err := scan(c.root, c.denied)
	if err != nil {
		return 0, err
	}
	slices.Reverse(removed) // what is in a directory goes before it
	for _, name := range removed {
		if err := c.remove(name, now); err != nil {
			return 0, fmt.Errorf("remove %q: %w", name, err)
		}
	}
	wanted := tree{}
	for _, name := range changed {
		e := listed[name]
		if !now[name].same(c.here[name]) { // this machine changed it too: its own stays, and is sent the next time
			c.there[name] = e
			continue
		}
		if e.kind == 'f' {
			wanted[name] = e
			continue
		}
		if err := c.make(name, e); err != nil {
			return 0, fmt.Errorf("copy back %q: %w", name, err)
		}
	}
	return c.fetch(ctx, wanted)
}

// remove takes away what is not there any more, unless it was changed here. A directory stays as long as something is
// in it that the other machine does not have.
func (c *copied) remove(name string, now tree) error {
	was := c.here[name]
	delete(c.there, name)
	delete(c.here, name)
	if !now[name].same(was) {
		return nil
	}
	if err := c.root.Remove(name); err != nil && !isMissing(err) {
		if was.kind == 'd' && errors.Is(err, fs.ErrExist) {
			return nil // not empty: it is sent again with what it holds
		}
		return err
	}
	delete(now, name)
	return nil
}

// make makes a directory or a link.
func (c *copied) make(name string, e entry) error {
	if e.kind == 'd' {
		mode := e.mode | 0o700 // whoever works here has to get in
		if err := c.root.Mkdir(name, mode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := c.root.Chmod(name, mode); err != nil {
			return err
		}
		return c.agree(name, e)
	}
	aside := path.Join(path.Dir(name), asidePrefix+rand.Text())
	if err := c.root.Symlink(e.link, aside); err != nil {
		return err
	}
	if err := c.root.Rename(aside, name); err != nil {
		return errors.Join(err, c.root.Remove(aside))
	}
	return c.agree(name, e)
}

// agree notes that both sides have the same.
func (c *copied) agree(name string, there entry) error {
	info, err := c.root.Lstat(name)
	if err != nil {
		return err
	}
	e, ok := ours(info)
	if !ok || e.kind != there.kind {
		return nil // somebody else was here: the next look sees it
	}
	if e.kind == 'l' {
		if e.link, err = c.root.Readlink(name); err != nil {
			return err
		}
	}
	c.here[name], c.there[name] = e, there
	return nil
}

// fetch brings the content of files, each as it is listed or not at all, and returns how many did not come so.
func (c *copied) fetch(ctx context.Context, wanted tree) (missing int, err error) {
	if len(wanted) == 0 {
		return 0, nil
	}
	names, archive := c.base+"/names-"+rand.Text(), c.base+"/out-"+rand.Text()
	if err := c.remote.Put(ctx, names, strings.NewReader(strings.Join(wanted.ordered(), "\x00")+"\x00")); err != nil {
		return 0, fmt.Errorf("copy files back: %w", err)
	}
	if _, err := c.helper(ctx, Program{Privileged: true}, give, c.ws, names, archive); err != nil {
		return 0, fmt.Errorf("copy files back: %w", err)
	}
	body, err := c.remote.Get(ctx, archive)
	if err != nil {
		return 0, fmt.Errorf("copy files back: %w", err)
	}
	err = c.unpack(body, wanted)
	_ = body.Close() // it was only read, perhaps not to its end
	if _, ferr := c.helper(ctx, Program{Privileged: true}, forget, archive); err == nil {
		err = ferr
	}
	if err != nil {
		return 0, fmt.Errorf("copy files back: %w", err)
	}
	return len(wanted), nil
}

// unpack applies an archive, and takes from wanted what it applied.
func (c *copied) unpack(body io.Reader, wanted tree) error {
	most := int64(1 << 20)
	for name, e := range wanted {
		most += e.size + int64(8*len(name)) + 16<<10
	}
	r := tar.NewReader(io.LimitReader(body, most))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the archive is cut off: %w", err)
		}
		e, ok := wanted[h.Name]
		if !ok || h.Typeflag != tar.TypeReg {
			return fmt.Errorf("%w: it sent %.200q, which was not requested", ErrHostile, h.Name)
		}
		if h.Size != e.size || !h.ModTime.Equal(e.time) {
			continue // it was changed since
		}
		if err := c.replace(h.Name, e, r); err != nil {
			return fmt.Errorf("%q: %w", h.Name, err)
		}
		delete(wanted, h.Name)
	}
}

// replace writes a file aside and renames it.
func (c *copied) replace(name string, e entry, from io.Reader) (err error) {
	dir, base := path.Split(name)
	parent, err := c.root.OpenRoot(path.Clean("./" + dir))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, parent.Close()) }()
	aside := asidePrefix + rand.Text()
	f, err := parent.OpenFile(aside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, from)
	if err == nil && n != e.size {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		err = f.Chmod(e.mode | 0o600)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = parent.Chtimes(aside, e.time, e.time)
	}
	if err == nil {
		err = parent.Rename(aside, base)
	}
	if err != nil {
		return errors.Join(err, parent.Remove(aside))
	}
	return c.agree(name, e)
}
