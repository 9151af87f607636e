package local

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// ownOwner names this process: the namespace of its id, its id, and when it started, in ticks since the machine did.
func ownOwner() string {
	return fmt.Sprintf("%s.%d.%s", pidSpace(), os.Getpid(), startOf(os.Getpid()))
}

// pidSpace names the namespace that process ids count in.
func pidSpace() string {
	var st syscall.Stat_t
	if syscall.Stat("/proc/self/ns/pid", &st) != nil {
		return "0"
	}
	return fmt.Sprint(st.Ino)
}

// startOf is the start time of a process in proc_pid_stat(5), empty where there is none.
func startOf(pid int) string {
	data, err := os.ReadFile(procPath(pid, "stat"))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}

// lives reports whether an owner is there, or cannot be known to be gone: then its things are left alone.
func lives(owner string) bool {
	space, pid, start, ok := parseOwner(owner)
	if !ok || space != pidSpace() {
		return true
	}
	st, there := statOf(pid)
	return there && !st.dead() && startOf(pid) == start
}
