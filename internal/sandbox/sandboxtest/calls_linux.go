package sandboxtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// numbers are those of the system calls that scripts make, which differ between processors.
func numbers() []string {
	var env []string
	for name, number := range map[string]int{
		"KEYCTL": unix.SYS_KEYCTL, "PRLIMIT": unix.SYS_PRLIMIT64, "KCMP": unix.SYS_KCMP, "READV": unix.SYS_PROCESS_VM_READV,
		"WRITEV":  unix.SYS_PROCESS_VM_WRITEV,
		"MADVISE": unix.SYS_PROCESS_MADVISE, "MRELEASE": unix.SYS_PROCESS_MRELEASE, "PIDFD": unix.SYS_PIDFD_OPEN,
		"PIDFD_SIGNAL": unix.SYS_PIDFD_SEND_SIGNAL,
		"GETFD":        unix.SYS_PIDFD_GETFD, "AFFINITY": unix.SYS_SCHED_SETAFFINITY,
		"SCHEDULER": unix.SYS_SCHED_SETSCHEDULER,
		"PARAM":     unix.SYS_SCHED_SETPARAM,
		"ATTR":      unix.SYS_SCHED_SETATTR, "PRIORITY": unix.SYS_SETPRIORITY, "IOPRIO": unix.SYS_IOPRIO_SET,
		"MOVE": unix.SYS_MOVE_PAGES, "MIGRATE": unix.SYS_MIGRATE_PAGES,
		"PTRACE": unix.SYS_PTRACE, "TKILL": unix.SYS_TKILL, "TGKILL": unix.SYS_TGKILL, "QUEUE": unix.SYS_RT_SIGQUEUEINFO,
		"TGQUEUE": unix.SYS_RT_TGSIGQUEUEINFO,
		"PERF":    unix.SYS_PERF_EVENT_OPEN, "ROBUST": unix.SYS_GET_ROBUST_LIST, "PRCTL": unix.SYS_PRCTL,
		"SETXATTR": unix.SYS_SETXATTR, "LSETXATTR": unix.SYS_LSETXATTR,
		"FSETXATTR": unix.SYS_FSETXATTR, "SETXATTRAT": 463, "REMOVEXATTR": unix.SYS_REMOVEXATTR,
		"UTIMENSAT": unix.SYS_UTIMENSAT, "FCHMODAT2": unix.SYS_FCHMODAT2,
		"FCHOWNAT": unix.SYS_FCHOWNAT, "OPENAT2": unix.SYS_OPENAT2, "MKNODAT": unix.SYS_MKNODAT, "FILE_SETATTR": 469,
		"SOCKETPAIR": unix.SYS_SOCKETPAIR, "MQ_OPEN": unix.SYS_MQ_OPEN, "IOCTL": unix.SYS_IOCTL,
	} {
		env = append(env, "SYS_"+name+"="+strconv.Itoa(number))
	}
	return env
}

// memory returns an address of a process that can be read and written.
func memory(t *testing.T, pid int) string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	must(t, err)
	for line := range strings.Lines(string(data)) {
		span, rest, _ := strings.Cut(line, " ")
		from, _, _ := strings.Cut(span, "-")
		if strings.HasPrefix(rest, "rw-p") && strings.Contains(rest, "[stack]") {
			n, err := strconv.ParseUint(from, 16, 64)
			must(t, err)
			return strconv.FormatUint(n, 10)
		}
	}
	t.Fatal("a process without a stack")
	return ""
}

// object makes shared memory of System V with a key of its own, for the life of the test.
func object(t *testing.T) (key string) {
	t.Helper()
	for n := os.Getpid() << 8; ; n++ {
		id, err := unix.SysvShmGet(n, os.Getpagesize(), unix.IPC_CREAT|unix.IPC_EXCL|0o600)
		if err == unix.EEXIST { //nolint:errorlint // of the kernel
			continue
		}
		must(t, err)
		t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
		return strconv.Itoa(n)
	}
}

// objects counts the objects of System V and the message queues of a key, and takes them away.
func objects(t *testing.T, key int) (left int) {
	t.Helper()
	for name, remove := range map[string]uintptr{"shm": unix.SYS_SHMCTL, "sem": unix.SYS_SEMCTL, "msg": unix.SYS_MSGCTL} {
		data, err := os.ReadFile("/proc/sysvipc/" + name)
		must(t, err)
		for line := range bytes.Lines(data) {
			fields := strings.Fields(string(line))
			if len(fields) < 2 || fields[0] != strconv.Itoa(key) {
				continue
			}
			left++
			id, err := strconv.Atoi(fields[1])
			must(t, err)
			args := [2]uintptr{unix.IPC_RMID, 0}
			if name == "sem" {
				args = [2]uintptr{0, unix.IPC_RMID}
			}
			_, _, _ = unix.Syscall(remove, uintptr(id), args[0], args[1])
		}
	}
	queue, err := unix.BytePtrFromString("inspan-" + strconv.Itoa(key))
	must(t, err)
	if _, _, errno := unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(queue)), 0, 0); errno == 0 {
		left++
	}
	return left
}

// apart puts a process into a group of its own.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
