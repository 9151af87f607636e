package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// What a ruleset of Without handles: what it takes to run a program, and to move files, which a ruleset that does not
// handle it forbids.
const (
	running = landlock.AccessFSSet(unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE)
	moving  = landlock.AccessFSSet(unix.LANDLOCK_ACCESS_FS_REFER)
)

// Without makes a ruleset under which all files of the machine but some, given by real path, can be read and executed,
// as far as other rules let them. A directory that holds one of them is opened entry by entry: an entry that comes
// later is closed too.
func Without(files []string) (*os.File, error) {
	fd, err := llsys.LandlockCreateRuleset(&llsys.RulesetAttr{HandledAccessFS: uint64(running | moving)}, 0)
	if err != nil {
		return nil, fmt.Errorf("landlock: make a ruleset: %w", err)
	}
	rules := os.NewFile(uintptr(fd), "landlock ruleset") //nolint:gosec // a descriptor
	if err := except(fd, files); err != nil {
		return nil, errors.Join(err, rules.Close())
	}
	return rules, nil
}

// except adds all that is beside the files, and beside the directories that they are in.
func except(fd int, files []string) error {
	closed := map[string]bool{}
	var dirs []string
	for _, file := range files {
		closed[file] = true
		for dir := path.Dir(file); ; dir = path.Dir(dir) {
			if !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
			if dir == "/" {
				break
			}
		}
	}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("landlock: open all of %s but a program: %w", dir, err)
		}
		for _, e := range entries {
			at := filepath.Join(dir, e.Name())
			if closed[at] || slices.Contains(dirs, at) || e.Type() == fs.ModeSymlink {
				continue
			}
			if err := beneath(fd, at); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("landlock: open %s: %w", at, err)
			}
		}
	}
	return nil
}

// beneath adds what is at a path, and below.
func beneath(rules int, at string) error {
	fd, err := unix.Open(at, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	access := running
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		access |= moving
	case unix.S_IFLNK:
		return nil
	}
	return llsys.LandlockAddPathBeneathRule(rules, &llsys.PathBeneathAttr{ParentFd: fd, AllowedAccess: uint64(access)}, 0)
}

// Holds are the directories whose entries a ruleset of Without depends on.
func Holds(files []string) []string {
	var dirs []string
	for _, file := range files {
		for dir := path.Dir(file); dir != "/"; dir = path.Dir(dir) {
			dirs = append(dirs, dir)
		}
		dirs = append(dirs, "/")
	}
	slices.SortFunc(dirs, strings.Compare)
	return slices.Compact(dirs)
}
