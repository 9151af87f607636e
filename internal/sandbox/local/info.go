package local

import (
	"strconv"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
)

const (
	// maxArgs is the most bytes of a command line that are shown.
	maxArgs = 4 << 10
	// clockTick is the unit of times in proc_pid_stat(5): USER_HZ is 100 on every Linux.
	clockTick = 10 * time.Millisecond
)

// Info reads what proc_pid_stat(5) and proc_pid_cmdline(5) tell of a process, of this machine or of another, whose
// pages have that size. Parts of it are chosen by the process: the name in brackets may hold anything, so fields count
// from the last bracket. dead is true for one that ended and was not waited for yet.
func Info(pid int, stat, line string, page int64) (info sandbox.ProcessInfo, dead, ok bool) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 22 {
		return sandbox.ProcessInfo{}, false, false
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(fields[i], 10, 64) // 0 where it is none
		return max(n, 0)
	}
	info = sandbox.ProcessInfo{PID: pid, Parent: int(number(1)), RSS: number(21) * page,
		User: time.Duration(number(11)) * clockTick, System: time.Duration(number(12)) * clockTick}
	if line = strings.TrimRight(line[:min(len(line), maxArgs)], "\x00"); line != "" {
		info.Args = strings.Split(strings.ToValidUTF8(line, "\uFFFD"), "\x00")
	}
	return info, fields[0] == "Z" || fields[0] == "X", true
}
