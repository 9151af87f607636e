package bwrap

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
)

const (
	// homeInside is HOME in the sandbox.
	homeInside = "/home/agent"
	// tmpInside is TMPDIR in the sandbox: of its own below /tmp, where a workspace may have its place too.
	tmpInside = "/tmp/agent"
	// user is the user and group id inside; outside, files belong to the service's own user.
	user = "1000"
)

const (
	// firstExtra is the descriptor of the first extra file of a process.
	firstExtra = 3
	// firstGiven is that of the first file in box.given, after four more; the handles in box.kept come after these.
	firstGiven = firstExtra + 4
)

// Switches and views of the kernel in /proc. Outside, the user of a sandbox is the service's: where that is root, it
// owns /proc/sys, and the mode bits alone would let it change the whole machine (kernel.core_pattern names a program
// that the kernel runs as root). Bubblewrap closes only what it takes for writable, and it misses directories.
var (
	procReadOnly = [...]string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/mtrr"}
	procHidden   = [...]string{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/latency_stats", "/proc/sched_debug",
		"/proc/kmsg"}
	procEmpty = [...]string{"/proc/acpi", "/proc/asound", "/proc/scsi"}
)

// proc mounts a process list of its own and closes the switches in it that this kernel has.
func proc() []string {
	args := []string{"--proc", "/proc"}
	for _, path := range procReadOnly {
		if exists(path) {
			args = append(args, "--ro-bind", path, path)
		}
	}
	for _, path := range procHidden {
		if exists(path) {
			args = append(args, "--ro-bind", "/dev/null", path)
		}
	}
	for _, path := range procEmpty {
		if exists(path) {
			args = append(args, "--tmpfs", path, "--remount-ro", path)
		}
	}
	return args
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// rootLinks are the directories of the root that are links into /usr on most systems and real on some.
var rootLinks = [...]string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// isolation are the arguments that take things away.
func isolation(found install, network bool) []string {
	args := []string{
		"--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try",
		"--new-session", "--die-with-parent", "--uid", user, "--gid", user, "--cap-drop", "ALL",
		"--hostname", "inspan", "--clearenv",
	}
	if !network {
		args = append(args, "--unshare-net")
	}
	if found.closesUserns {
		args = append(args, "--disable-userns")
	}
	return args
}

// mounts are the arguments that build what a command sees, and the files that it is given with each command.
func mounts(b *local.Sandbox) ([]string, []gift, error) {
	args := []string{"--ro-bind", "/usr", "/usr"}
	for _, name := range rootLinks {
		info, err := os.Lstat(name)
		if err != nil {
			continue // not on this system
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			args = append(args, "--ro-bind", name, name)
			continue
		}
		link, err := os.Readlink(name)
		if err != nil {
			return nil, nil, err
		}
		args = append(args, "--symlink", link, name)
	}
	cfg := b.Config()
	etc, given := showEtc(cfg.Network)
	args = append(args, etc...)
	args = append(args, proc()...)
	args = append(args,
		"--dev", "/dev", "--bind", b.Private("tmp"), "/tmp",
		"--dir", "/var", "--symlink", "../tmp", "/var/tmp", "--bind", b.Private("home"), homeInside)
	args = append(args, binds(cfg.Workspace, cfg.ReadOnly, cfg.Writable, cfg.Denied)...)
	denied, err := denials(b)
	if err != nil {
		return nil, nil, err
	}
	args = append(args, denied...)
	// The root itself is memory that bubblewrap made; closed last, when all places to mount on exist.
	return append(args, "--remount-ro", "/"), given, nil
}

// binds orders what the Config shows so that the deeper path wins: a read-only directory in the workspace stays
// read-only, and the workspace in a read-only directory stays writable. Where one path is named twice, the workspace
// wins over Writable and Writable over ReadOnly. The directories between a writable one and a path in it that is closed
// are mounted onto themselves: what is a mount cannot be renamed, and so what is below cannot be moved out of its
// place.
func binds(workspace string, readOnly, writable, denied []string) []string {
	type bind struct{ flag, path string }
	open := append(slices.Clone(writable), workspace)
	var list []bind
	for _, path := range slices.Concat(readOnly, denied) {
		for _, above := range open {
			for _, between := range ways(above, path) {
				list = append(list, bind{"--bind-try", between})
			}
		}
	}
	for _, path := range readOnly {
		list = append(list, bind{"--ro-bind", path})
	}
	for _, path := range writable {
		list = append(list, bind{"--bind", path})
	}
	list = append(list, bind{"--bind", workspace})
	sort.SliceStable(list, func(i, j int) bool { return len(list[i].path) < len(list[j].path) })
	args := make([]string, 0, 3*len(list))
	for i, b := range list {
		if b.flag == "--bind-try" && slices.ContainsFunc(list[:i], func(other bind) bool { return other.path == b.path }) {
			continue // it is a mount of its own already
		}
		args = append(args, b.flag, b.path, b.path)
	}
	return args
}

// ways are the directories strictly between one and a path below it.
func ways(above, path string) []string {
	var list []string
	if !strings.HasPrefix(path, above+"/") {
		return nil
	}
	for dir := filepath.Dir(path); len(dir) > len(above); dir = filepath.Dir(dir) {
		list = append(list, dir)
	}
	return list
}

// denials cover the denied paths; see local.Covered.
func denials(b *local.Sandbox) ([]string, error) {
	if len(b.Config().Denied) == 0 {
		return nil, nil
	}
	empty, err := nothing(b)
	if err != nil {
		return nil, err
	}
	var args []string
	err = local.Covered(b.Config().Denied, func(at string) bool {
		return shown(b.Config(), at)
	}, func(at string, dir bool) {
		if dir {
			args = append(args, "--perms", "0000", "--tmpfs", at, "--remount-ro", at)
		} else {
			args = append(args, "--ro-bind", empty, at)
		}
	})
	return args, err
}

// nothing makes a file that covers others: empty, and closed to everybody.
func nothing(b *local.Sandbox) (string, error) {
	empty := b.Private("denied")
	if err := os.WriteFile(empty, nil, 0); err != nil && !errors.Is(err, fs.ErrPermission) { // it is there already
		return "", fmt.Errorf("make the cover of denied files: %w", err)
	}
	return empty, nil
}

// masks cover the files of denied programs.
func masks(b *local.Sandbox, files []string) ([]string, error) {
	if len(files) == 0 {
		return nil, nil
	}
	empty, err := nothing(b)
	if err != nil {
		return nil, err
	}
	var args []string
	for _, file := range files {
		args = append(args, "--ro-bind", empty, file)
	}
	return args, nil
}

// shown reports whether a path is below one that the sandbox shows of the machine, or is made for it.
func shown(cfg sandbox.Config, path string) bool {
	roots := slices.Concat([]string{"/usr", cfg.Workspace}, cfg.ReadOnly, cfg.Writable, rootLinks[:], etcShown[:])
	for name := range etcMade {
		roots = append(roots, name)
	}
	return slices.ContainsFunc(roots, func(root string) bool { return path == root || strings.HasPrefix(path, root+"/") })
}
