//go:build slow

package faults

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// disk is a file system of its own: ext4 on a loop device, whose image is what would be left after a power cut, or a
// small one in memory.
type disk struct {
	t          *testing.T
	dir, mount string
	images     int
}

const diskBytes = 128 << 20

// newDisk makes and mounts one in a file. An error means that this machine cannot; it is told and not passed over.
func newDisk(t *testing.T) (*disk, error) {
	t.Helper()
	d := &disk{t: t, dir: t.TempDir()}
	d.mount = filepath.Join(d.dir, "mount")
	if err := os.Mkdir(d.mount, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(d.image(), nil, 0o644); err != nil {
		return nil, err
	}
	if err := os.Truncate(d.image(), diskBytes); err != nil {
		return nil, err
	}
	if err := command("mkfs.ext4", "-q", "-F", d.image()); err != nil {
		return nil, err
	}
	if err := d.mountImage(); err != nil {
		return nil, err
	}
	t.Cleanup(d.unmount)
	return d, nil
}

// newSmallDisk mounts one in memory.
func newSmallDisk(t *testing.T, bytes int) (*disk, error) {
	t.Helper()
	d := &disk{t: t, dir: t.TempDir()}
	d.mount = filepath.Join(d.dir, "mount")
	if err := os.Mkdir(d.mount, 0o755); err != nil {
		return nil, err
	}
	if err := command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", bytes), "tmpfs", d.mount); err != nil {
		return nil, err
	}
	t.Cleanup(d.unmount)
	return d, nil
}

func command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (d *disk) image() string { return filepath.Join(d.dir, fmt.Sprintf("image.%d", d.images)) }

// mountImage leaves it to whoever syncs to have things written: the file system's own timer is far away.
func (d *disk) mountImage() error {
	return command("mount", "-o", "loop,commit=300", d.image(), d.mount)
}

func (d *disk) unmount() {
	if err := command("umount", d.mount); err != nil {
		d.t.Errorf("%v", err)
	}
}

// cut takes the power: what has reached the device by now is all there is, and whoever wrote to it is gone.
func (d *disk) cut(f *fleet, name string) {
	d.t.Helper()
	f.signal(name, syscall.SIGSTOP)
	before := d.image()
	d.images++
	if err := command("cp", "--sparse=always", before, d.image()); err != nil {
		d.t.Fatal(err)
	}
	f.stop(name, syscall.SIGKILL)
	d.unmount()
	if err := d.mountImage(); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Remove(before); err != nil {
		d.t.Fatal(err)
	}
}

func (d *disk) ballast() string { return filepath.Join(d.mount, "ballast") }

// fill leaves no room at all.
func (d *disk) fill() error {
	f, err := os.Create(d.ballast())
	if err != nil {
		return err
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		_, err := f.Write(make([]byte, size))
		switch {
		case errors.Is(err, syscall.ENOSPC):
			size /= 2
		case err != nil:
			return err
		}
	}
	return nil
}

// free makes room again.
func (d *disk) free() error { return os.Remove(d.ballast()) }
