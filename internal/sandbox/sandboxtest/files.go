package sandboxtest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/inspan/inspan/internal/sandbox"
)

func examFiles(t *testing.T, b sandbox.Backend) {
	p := open(t, b)
	t.Run("SBX-1 written files are read back, by commands too", func(t *testing.T) {
		must(t, p.sandbox.WriteFile("a/b/c.txt", []byte("first\n")))
		must(t, p.sandbox.WriteFile("a/b/c.txt", []byte("second\n")))
		data, err := p.sandbox.ReadFile("./a/b/../b/c.txt")
		if err != nil || string(data) != "second\n" {
			t.Errorf("got %q, %v", data, err)
		}
		if out, _, _ := p.sh(t, "cat a/b/c.txt; ls -A a/b"); out != "second\nc.txt\n" {
			t.Errorf("a command sees %q", out)
		}
		info, err := p.sandbox.Stat("a/b/c.txt")
		if err != nil || info.Size() != 7 || info.IsDir() {
			t.Errorf("stat: got %v, %v", info, err)
		}
	})
	t.Run("files of commands can be read and replaced", func(t *testing.T) {
		p.sh(t, "umask 077; mkdir -p made; echo by command > made/f; chmod 700 made/f")
		data, err := p.sandbox.ReadFile("made/f")
		if err != nil || string(data) != "by command\n" {
			t.Errorf("got %q, %v", data, err)
		}
		must(t, p.sandbox.WriteFile("made/f", []byte("#!/bin/sh\necho ran\n")))
		if out, errs, _ := p.sh(t, "./made/f"); out != "ran\n" {
			t.Errorf("the mode is not kept: %q %q", out, errs)
		}
		info, err := os.Stat(filepath.Join(p.workspace, "made/f"))
		must(t, err)
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Getuid() {
			t.Errorf("owner: got %+v, want the service's user", info.Sys())
		}
	})
	t.Run("a link inside is written through", func(t *testing.T) {
		must(t, p.sandbox.WriteFile("real/file", []byte("old")))
		must(t, os.Symlink("real", filepath.Join(p.workspace, "dirlink")))
		must(t, os.Symlink("../real/file", filepath.Join(p.workspace, "real/link")))
		must(t, p.sandbox.WriteFile("dirlink/link", []byte("new")))
		data, err := p.sandbox.ReadFile("real/file")
		if err != nil || string(data) != "new" {
			t.Errorf("got %q, %v", data, err)
		}
	})
	t.Run("WS-12 SBX-18 a write to a hard link leaves the file outside that it is one of alone", func(t *testing.T) {
		must(t, os.Link(p.secret, filepath.Join(p.workspace, "hard")))
		must(t, p.sandbox.WriteFile("hard", []byte("planted")))
		if data, err := p.sandbox.ReadFile("hard"); err != nil || string(data) != "planted" {
			t.Errorf("got %q, %v", data, err)
		}
		p.untouched(t)
	})
	t.Run("what is no file is refused at once", func(t *testing.T) { notFiles(t, p) })
	t.Run("FS keeps the contract of io/fs", func(t *testing.T) {
		q := open(t, b)
		must(t, q.sandbox.WriteFile("x/y.txt", []byte("y")))
		must(t, q.sandbox.WriteFile("z", nil))
		must(t, fstest.TestFS(q.sandbox.FS(), "x/y.txt", "z"))
	})
	t.Run("a write is seen whole or not at all", func(t *testing.T) { whole(t, p) })
}

func notFiles(t *testing.T, p workdir) {
	must(t, syscall.Mkfifo(filepath.Join(p.workspace, "fifo"), 0o600))
	must(t, os.MkdirAll(filepath.Join(p.workspace, "dir"), 0o755))
	if _, err := p.sandbox.ReadFile("fifo"); !errors.Is(err, sandbox.ErrNotRegular) {
		t.Errorf("read a pipe: got %v, want ErrNotRegular", err)
	}
	if _, err := fs.ReadFile(p.sandbox.FS(), "fifo"); !errors.Is(err, sandbox.ErrNotRegular) {
		t.Errorf("read a pipe through FS: got %v, want ErrNotRegular", err)
	}
	if _, err := p.sandbox.ReadFile("dir"); err == nil {
		t.Error("read a directory: got no error")
	}
	if _, err := p.sandbox.ReadFile("missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read a missing file: got %v, want ErrNotExist", err)
	}
	for _, path := range []string{"dir", "dir/", ".", "dir/..", "dir/."} {
		if err := p.sandbox.WriteFile(path, []byte("x")); err == nil {
			t.Errorf("write %q: got no error", path)
		}
	}
	for _, path := range []string{"", "a\x00b", strings.Repeat("x/", 3000)} {
		if err := p.sandbox.WriteFile(path, nil); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("write a path of %d bytes: got %v, want ErrInvalid", len(path), err)
		}
	}
	big, err := os.Create(filepath.Join(p.workspace, "big"))
	must(t, err)
	must(t, big.Truncate(sandbox.MaxReadFile+1))
	must(t, big.Close())
	if _, err := p.sandbox.ReadFile("big"); !errors.Is(err, sandbox.ErrTooLarge) {
		t.Errorf("read MaxReadFile+1 bytes: got %v, want ErrTooLarge", err)
	}
	must(t, os.Truncate(filepath.Join(p.workspace, "big"), sandbox.MaxReadFile))
	if data, err := p.sandbox.ReadFile("big"); err != nil || len(data) != sandbox.MaxReadFile {
		t.Errorf("read MaxReadFile bytes: got %d, %v", len(data), err)
	}
	must(t, os.Remove(filepath.Join(p.workspace, "big")))
}

func whole(t *testing.T, p workdir) {
	old, young := bytes.Repeat([]byte("a"), 300_000), bytes.Repeat([]byte("b"), 200_000)
	must(t, p.sandbox.WriteFile("whole", old))
	var both sync.WaitGroup
	both.Go(func() {
		for i := range 40 {
			data := old
			if i%2 == 0 {
				data = young
			}
			if err := p.sandbox.WriteFile("whole", data); err != nil {
				t.Error(err)
			}
		}
	})
	both.Go(func() {
		for range 200 {
			got, err := p.sandbox.ReadFile("whole")
			if err != nil || (!bytes.Equal(got, old) && !bytes.Equal(got, young)) {
				t.Errorf("got a part: %d bytes, %v", len(got), err)
			}
		}
	})
	both.Wait()
	if out, _, _ := p.sh(t, "ls -A | grep -c '^.inspan-' || true"); strings.TrimSpace(out) != "0" {
		t.Errorf("files written aside are left: %s", out)
	}
}

// ways are paths that leave the workspace once the links below are made.
func ways(t *testing.T, p workdir) []string {
	t.Helper()
	for name, to := range map[string]string{
		"up": "..", "abs": p.outside, "rel": "../outside", "file": "../outside/secret", "absfile": p.secret,
		"dangling": "../outside/new", "absdangling": p.outside + "/new", "chain": "rel", "chain2": "chain/secret",
	} {
		must(t, os.Symlink(to, filepath.Join(p.workspace, name)))
	}
	must(t, os.MkdirAll(filepath.Join(p.workspace, "in/ner"), 0o755))
	return []string{
		"../outside/secret", "in/../../outside/secret", "./../outside/secret", "in/ner/../../../outside/secret", p.secret,
		"up/outside/secret", "abs/secret", "rel/secret", "file", "absfile", "chain/secret", "chain2",
		"../outside/new", "abs/new", "rel/new", "rel/deep/new", "chain/new", "dangling", "absdangling", "up/new", "/new",
		"in/../rel/../outside/secret",
	}
}

func examOutside(t *testing.T, b sandbox.Backend) {
	p := open(t, b)
	for _, path := range ways(t, p) {
		if err := p.sandbox.WriteFile(path, []byte("planted")); !errors.Is(err, sandbox.ErrOutside) {
			t.Errorf("GUARD-12 write %q: got %v, want ErrOutside", path, err)
		}
		if data, err := p.sandbox.ReadFile(path); !errors.Is(err, sandbox.ErrOutside) || data != nil {
			t.Errorf("GUARD-12 read %q: got %q, %v, want ErrOutside", path, data, err)
		}
		if _, err := p.sandbox.Stat(path); !errors.Is(err, sandbox.ErrOutside) {
			t.Errorf("GUARD-12 stat %q: got %v, want ErrOutside", path, err)
		}
		if data, err := fs.ReadFile(p.sandbox.FS(), path); err == nil {
			t.Errorf("GUARD-12 read %q through FS: got %q", path, data)
		}
		if _, err := fs.Stat(p.sandbox.FS(), path); err == nil {
			t.Errorf("GUARD-12 stat %q through FS: got no error", path)
		}
		if list, err := fs.ReadDir(p.sandbox.FS(), path); err == nil {
			t.Errorf("GUARD-12 list %q through FS: got %v", path, list)
		}
	}
	p.untouched(t)
}

// examRaces swaps a directory with a link to the outside, again and again, while files below it are used.
func examRaces(t *testing.T, b sandbox.Backend) {
	p := open(t, b)
	dir, link := filepath.Join(p.workspace, "d"), filepath.Join(p.workspace, "l")
	must(t, p.sandbox.WriteFile("d/secret", []byte("inside")))
	must(t, os.Symlink(p.outside, link))
	stop := make(chan struct{})
	var swaps sync.WaitGroup
	swaps.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := exchange(dir, link); err != nil {
				t.Errorf("swap: %v", err)
				return
			}
		}
	})
	// The link and the directory must both have been there often: who swaps them may not get a processor for long.
	const least, most = 50, 20_000
	var reads, writes, refusedReads, refusedWrites int
	for range most {
		data, err := p.sandbox.ReadFile("d/secret")
		switch {
		case err == nil && string(data) == secretText:
			t.Error("WS-12 read outside in a race")
		case errors.Is(err, sandbox.ErrOutside):
			refusedReads++
		case err == nil:
			reads++
		}
		switch err := p.sandbox.WriteFile("d/secret", []byte("inside")); {
		case errors.Is(err, sandbox.ErrOutside):
			refusedWrites++
		case err == nil:
			writes++
		}
		if t.Failed() || min(reads, writes, refusedReads, refusedWrites) >= least {
			break
		}
	}
	close(stop)
	swaps.Wait()
	p.untouched(t)
	if min(reads, writes, refusedReads, refusedWrites) == 0 {
		t.Error("the race did not run")
	}
	t.Logf("%d reads and %d writes, and %d and %d that were refused", reads, writes, refusedReads, refusedWrites)
}
