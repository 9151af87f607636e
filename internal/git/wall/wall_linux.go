package wall

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
)

// byThread raises the wall for a thread that ends with the call, and starts the program from it.
func byThread(ctx context.Context, o Order, p local.Process) (exit sandbox.Exit, err error) {
	local.Apart(func() {
		if err = unix.Unshare(unix.CLONE_NEWNS); err != nil {
			err = fmt.Errorf("make a mount namespace: %w", err)
			return
		}
		if err = o.raise(); err == nil {
			exit, err = local.Run(ctx, p)
		}
	})
	return exit, err
}

// apartUser gives a process mounts of its own in a user namespace where it is who it was.
func apartUser(a *syscall.SysProcAttr) {
	a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // else it would lose its rights there where it becomes the helper
	a.Cloneflags |= unix.CLONE_NEWUSER | unix.CLONE_NEWNS
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
}

// raise changes the mounts of this thread's namespace, which must be its own.
func (o Order) raise() error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	var copies []part
	defer func() {
		for _, c := range copies {
			_ = unix.Close(c.fd)
		}
	}()
	add := func(path, at string, stranger bool) error {
		fd, err := copied(path, stranger)
		if err == nil {
			copies = append(copies, part{fd, at, stranger})
		}
		return err
	}
	var errs []error
	for _, path := range o.Trees {
		errs = append(errs, add(path, path, true))
	}
	for _, path := range o.Private {
		errs = append(errs, add(path, path, false))
	}
	if o.Pin != "" {
		errs = append(errs, add(o.Pin, o.At, true))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if !o.Open {
		if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE,
			&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("make all else read-only: %w", err)
		}
	}
	for _, c := range copies {
		// A link at the place of a tree is refused; the place of a pin is ours.
		if err := c.hang(); err != nil {
			return err
		}
	}
	return nil
}

// part is a copy of mounts that is hung over a directory.
type part struct {
	fd       int
	at       string
	stranger bool
}

func (c part) hang() error {
	to, err := held(c.at, c.stranger)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(to) }()
	if err := unix.MoveMount(c.fd, "", to, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount a cover over %s: %w", c.at, err)
	}
	return nil
}

// held opens a directory for its place only. The path to a stranger's has no link.
func held(path string, stranger bool) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC}
	if stranger {
		how.Resolve = unix.RESOLVE_NO_SYMLINKS
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// copied is a copy of the mounts at and below a directory; in a stranger's no link is followed.
func copied(path string, stranger bool) (int, error) {
	dir, err := held(path, stranger)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(dir) }()
	fd, err := unix.OpenTree(dir, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return -1, fmt.Errorf("copy the mount of %s: %w", path, err)
	}
	if !stranger {
		return fd, nil
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE,
		&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSYMFOLLOW}); err != nil {
		return -1, errors.Join(fmt.Errorf("disable links in %s (needs Linux 5.14): %w", path, err), unix.Close(fd))
	}
	return fd, nil
}

// execute turns this process into the program.
func execute(path string, args []string) error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("drop the capability to mount: %w", err)
	}
	return &os.PathError{Op: "exec", Path: path, Err: unix.Exec(path, args, os.Environ())}
}
