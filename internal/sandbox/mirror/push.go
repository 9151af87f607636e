package mirror

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// push sends what changed on this machine since both sides were last the same.
func (c *copied) push(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := scan(c.root, c.denied)
	if err != nil {
		return err
	}
	var changed, removed []string
	for _, name := range now.ordered() {
		was, known := c.here[name]
		if !now[name].same(was) {
			changed = append(changed, name)
		}
		if known && was.kind != now[name].kind {
			removed = append(removed, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.here)) {
		if _, ok := now[name]; !ok {
			removed = append(removed, name)
		}
	}
	if len(changed)+len(removed) == 0 {
		return nil
	}
	if err := c.send(ctx, now, changed, removed); err != nil {
		return fmt.Errorf("send the workspace: %w", err)
	}
	return nil
}

// send carries a change there. What both sides have is only known when all of it was carried out.
func (c *copied) send(ctx context.Context, now tree, changed, removed []string) error {
	in, gone := c.base+"/in-"+rand.Text(), c.base+"/gone-"+rand.Text()
	if len(removed) > 0 {
		if err := c.remote.Put(ctx, gone, strings.NewReader("./"+strings.Join(removed, "\x00./")+"\x00")); err != nil {
			return err
		}
	}
	sent, err := c.upload(ctx, in, now, changed)
	if err != nil {
		return err
	}
	said, err := c.helper(ctx, Program{Privileged: true}, take, c.ws, in, gone)
	if err != nil {
		return err
	}
	listed, err := parse([]byte(said), c.denied, c.folds)
	if err != nil {
		return err
	}
	for _, name := range removed {
		delete(c.here, name)
		delete(c.there, name)
	}
	for name, e := range sent {
		c.here[name] = e
		// A file that is another already was changed by a command that runs: it is brought back like any other.
		if l := listed[name]; l.kind == e.kind && l.size == e.size && l.link == e.link &&
			(e.kind != 'f' || l.time.Equal(e.time)) {
			c.there[name] = l
		} else {
			delete(c.there, name)
		}
	}
	return nil
}

// upload puts an archive of files and returns those of which it has the whole.
func (c *copied) upload(ctx context.Context, to string, now tree, names []string) (tree, error) {
	r, w := io.Pipe()
	type packed struct {
		sent tree
		err  error
	}
	done := make(chan packed, 1) // one result, not waited for by who writes it
	go func() {
		sent, err := c.pack(w, now, names)
		_ = w.CloseWithError(err) // which never fails
		done <- packed{sent, err}
	}()
	err := c.remote.Put(ctx, to, r)
	_ = r.CloseWithError(errors.New("the upload ended")) // which never fails
	p := <-done
	if err != nil {
		return nil, err
	}
	return p.sent, p.err
}

func (c *copied) pack(to io.Writer, now tree, names []string) (tree, error) {
	sent := tree{}
	w := tar.NewWriter(to)
	for _, name := range names {
		e, ok, err := c.packOne(w, name, now[name])
		if err != nil {
			return nil, fmt.Errorf("pack %q: %w", name, err)
		}
		if ok {
			sent[name] = e
		}
	}
	return sent, w.Close()
}

// packOne writes one entry. It reports false where that went, or changed while it was read: the next push sends it.
func (c *copied) packOne(w *tar.Writer, name string, e entry) (entry, bool, error) {
	h := &tar.Header{Name: name, Mode: int64(e.mode), ModTime: e.time, Uid: c.uid, Gid: c.gid, Format: tar.FormatPAX}
	switch e.kind {
	case 'd':
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
		return e, true, w.WriteHeader(h)
	case 'l':
		h.Typeflag, h.Linkname, h.ModTime = tar.TypeSymlink, e.link, time.Unix(0, 0)
		return e, true, w.WriteHeader(h)
	}
	f, err := c.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if isMissing(err) || errors.Is(err, syscall.ELOOP) {
		return e, false, nil
	}
	if err != nil {
		return e, false, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return e, false, err
	}
	e, ok := ours(info)
	if !ok || e.kind != 'f' {
		return e, false, nil
	}
	if err := within(0, e.size, 0, name); err != nil {
		return e, false, err
	}
	h.Typeflag, h.Mode, h.ModTime, h.Size = tar.TypeReg, int64(e.mode), e.time, e.size
	if err := w.WriteHeader(h); err != nil {
		return e, false, err
	}
	n, err := io.Copy(w, io.LimitReader(f, e.size))
	if err != nil {
		return e, false, err
	}
	if n < e.size { // it was cut meanwhile
		_, err = io.CopyN(w, zeros{}, e.size-n)
		return e, false, err
	}
	then, err := f.Stat()
	if err != nil {
		return e, false, err
	}
	again, _ := ours(then)
	return e, e.same(again), nil
}

// zeros fill up a file that became shorter while it was packed.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
