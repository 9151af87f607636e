package guest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// modules is the directory of the machine's modules in the first file system; order names them, one a line.
	modules = "/modules"
	order   = modules + "/order"
	newRoot = "/newroot"
	// own is the agent's directory; the others are in it.
	own         = "/run/inspan"
	sandboxDisk = own + "/box"
	groups      = own + "/cgroup"
	// deviceWait is how long a device may take to come.
	deviceWait = 20 * time.Second
)

// The disks of a machine, in this order: the operator's root, what the sandbox may use, and what is on its way.
const (
	rootDevice    = "/dev/vda"
	sandboxDevice = "/dev/vdb"
	transitDevice = "/dev/vdc"
)

// restart ends the machine. The console tells why.
func restart(why error) {
	if why != nil {
		fmt.Fprintln(os.Stderr, "inspan-guest:", why)
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART) // nothing is left to do where it fails
}

// mounted is one mount of the machine.
type mounted struct {
	from, at, kind string
	flags          uintptr
	data           string
}

func (m mounted) mount() error {
	if err := os.MkdirAll(m.at, 0o755); err != nil {
		return fmt.Errorf("mount %s: %w", m.at, err)
	}
	if err := unix.Mount(m.from, m.at, m.kind, m.flags, m.data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", m.kind, m.at, err)
	}
	return nil
}

const closed = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// boot is the first process: it readies the machine, starts the agent, and takes in what loses its parent.
func boot() error {
	for _, m := range []mounted{{"dev", "/dev", "devtmpfs", unix.MS_NOSUID, ""}, {"proc", "/proc", "proc", closed, ""},
		{"sys", "/sys", "sysfs", closed, ""}} {
		if err := m.mount(); err != nil {
			return err
		}
	}
	if err := load(); err != nil {
		return err
	}
	if err := enter(); err != nil {
		return err
	}
	if err := settings(); err != nil {
		return err
	}
	agent, err := os.StartProcess("/proc/self/exe", []string{"inspan-guest", wordAgent},
		&os.ProcAttr{Dir: "/", Env: []string{}, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return err
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if pid == agent.Pid || errors.Is(err, unix.ECHILD) {
			return nil
		}
	}
}

// load loads the machine's modules.
func load() error {
	text, err := os.ReadFile(order)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the kernel has all it needs
	}
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(string(text)) {
		f, err := os.Open(filepath.Join(modules, name))
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		_ = f.Close() // it was only read
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("load %s: %w", name, err)
		}
	}
	return nil
}

// enter makes the operator's root the machine's, with what is of the machine itself in it.
func enter() error {
	if err := os.MkdirAll(newRoot, 0o755); err != nil {
		return err
	}
	if err := devices(); err != nil {
		return err
	}
	if err := show(); err != nil {
		return err
	}
	for _, m := range []mounted{{"dev", "/dev", "", unix.MS_MOVE, ""}, {"proc", "/proc", "", unix.MS_MOVE, ""},
		{"sys", "/sys", "", unix.MS_MOVE, ""}} {
		if err := unix.Mount(m.at, newRoot+m.at, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("the root image must have an empty directory %s: %w", m.at, err)
		}
	}
	err := errors.Join(os.Chdir(newRoot), unix.Mount(".", "/", "", unix.MS_MOVE, ""), unix.Chroot("."), os.Chdir("/"))
	if err != nil {
		return fmt.Errorf("enter the root image: %w", err)
	}
	for _, m := range []mounted{
		{"run", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755,size=16m"},
		{"shm", "/dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
		{"pts", "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=620,ptmxmode=666"},
		{"cgroup", groups, "cgroup2", closed, ""},
	} {
		if err := m.mount(); err != nil {
			return err
		}
	}
	if err := os.Chmod(own, 0o700); err != nil {
		return err
	}
	return errors.Join(disk(sandboxDevice, sandboxDisk), disk(transitDevice, "/home"))
}

// devices waits for the machine's disks.
func devices() error {
	n, err := subscribeProc()
	if err != nil {
		return err
	}
	defer n.close()
	for _, device := range []string{rootDevice, sandboxDevice, transitDevice} {
		if err := n.await(device); err != nil {
			return err
		}
	}
	return nil
}

// show mounts the root image, whatever file system it is.
func show() error {
	var failed []error
	for _, kind := range []string{"ext4", "squashfs", "erofs"} {
		err := unix.Mount(rootDevice, newRoot, kind, unix.MS_RDONLY|unix.MS_NODEV|unix.MS_NOSUID, "")
		if err == nil {
			return nil
		}
		failed = append(failed, fmt.Errorf("as %s: %w", kind, err))
	}
	return fmt.Errorf("mount the root image: %w", errors.Join(failed...))
}

// features of the machine's file systems, which mke2fs does not know of without a configuration. Those of the groups
// keep it from writing all tables, which takes seconds and room on the computer outside.
const features = "^has_journal,^resize_inode,extent,huge_file,flex_bg,uninit_bg,dir_nlink,extra_isize"

// disk makes a file system on a disk and mounts it.
func disk(device, at string) error {
	for _, name := range []string{"/sbin/mke2fs", "/usr/sbin/mke2fs"} {
		if _, err := os.Stat(name); err != nil {
			continue
		}
		cmd := exec.Command(name, "-q", "-F", "-t", "ext4", "-O", features, "-m", "0", "-i", "16384", "-I", "256", "-E",
			"lazy_itable_init=1,nodiscard", device)
		cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "MKE2FS_CONFIG=/dev/null"}
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("make a file system on %s: %w: %.300q", device, err, said)
		}
		return mounted{device, at, "ext4", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOATIME, "noinit_itable"}.mount()
	}
	return errors.New("the root image has no mke2fs: put e2fsprogs into it")
}

// settings narrows what commands can ask of the kernel.
func settings() error {
	for name, value := range map[string]string{"user/max_user_namespaces": "0", "kernel/dmesg_restrict": "1",
		"kernel/kptr_restrict":             "2",
		"kernel/unprivileged_bpf_disabled": "1", "kernel/perf_event_paranoid": "4", "kernel/yama/ptrace_scope": "1"} {
		err := os.WriteFile("/proc/sys/"+name, []byte(value), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("kernel setting %s: %w", name, err)
		}
	}
	return errors.Join(os.MkdirAll(Home, 0o755), os.Chown(Home, User, User))
}
