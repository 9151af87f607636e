package within

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/egress/inside"
)

// verify looks at what is mounted. Nothing else runs in the container yet, so what holds now holds.
func verify(checks []Check) error {
	points, err := mounts("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for _, c := range checks {
		if err := c.verify(points); err != nil {
			return fmt.Errorf("%s is not the file or directory that was to be mounted: %w", c.Path, err)
		}
	}
	return nil
}

// sameUsers compares how users are numbered here with how they are outside.
func sameUsers(outside string) error {
	here, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return err
	}
	if !slices.Equal(strings.Fields(string(here)), strings.Fields(outside)) {
		return errors.New("the engine maps user ids (userns-remap, or a rootless engine): files that commands create would belong to other users")
	}
	return nil
}

func (c Check) verify(points map[string]int) error {
	fd, err := unix.Open(c.Root, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", c.Root, err)
	}
	defer func() { _ = unix.Close(fd) }()
	for name := range strings.SplitSeq(strings.TrimPrefix(c.Path, c.Root), "/") {
		if name == "" {
			continue
		}
		next, err := unix.Openat(fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		_ = unix.Close(fd)
		fd = next
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	if st.Dev != c.Dev || st.Ino != c.Ino {
		return errors.New("another file is mounted: it was replaced by a link, or the engine does not see the files of this machine")
	}
	at, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return err
	}
	if n := points[at]; n != 1 {
		return fmt.Errorf("%d mounts exist, want one: a link led one of them to another path", n)
	}
	if !c.ReadOnly {
		return nil
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return fmt.Errorf("statfs: %w", err)
	}
	if fs.Flags&unix.ST_RDONLY == 0 {
		return errors.New("it can be written")
	}
	return nil
}

// mounts counts the mounts at each path in proc_pid_mountinfo(5), which writes some characters as octal numbers.
func mounts(file string) (map[string]int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	plain := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	points := map[string]int{}
	for line := range strings.Lines(string(text)) {
		const point = 4
		if fields := strings.Fields(line); len(fields) > point {
			points[plain.Replace(fields[point])]++
		}
	}
	return points, nil
}

// openDoor listens where the commands of this container look for the way out, and hands the listener out.
func openEgress(socket string) (err error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", inside.Port))
	if err != nil {
		return fmt.Errorf("egress: %w", err)
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	file, err := l.(*net.TCPListener).File() //nolint:forcetypeassert // of tcp
	if err != nil {
		return fmt.Errorf("egress: %w", err)
	}
	defer func() { _ = file.Close() }()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return fmt.Errorf("egress: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if _, _, err := conn.(*net.UnixConn).WriteMsgUnix([]byte{1}, unix.UnixRights(int(file.Fd())), nil); err != nil { //nolint:forcetypeassert // of unix
		return fmt.Errorf("send the egress listener: %w", err)
	}
	return nil
}
