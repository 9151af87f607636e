package local

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// killRounds bounds the walks of one kill; each ends all it finds, so only a fork bomb needs more than three.
	killRounds = 200
	// killWait is how long one round waits for what it killed to be gone.
	killWait = 2 * time.Second
	// quickRun is the run time below which process ids cannot have wrapped around unseen (see tree.recent).
	quickRun = 200 * time.Millisecond
	// recentMax is how many ids are looked at one by one.
	recentMax = 64
)

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// maxRSS is in bytes; Linux counts in KiB.
func maxRSS(u *syscall.Rusage) int64 { return u.Maxrss << 10 }

// tree is a process and all it started: its group, its descendants, and whoever carries its marker.
type tree struct {
	root   int
	marker []byte
	start  time.Time
	// born is when the root was started, as stat tells it: all that it started is as young or younger. 0 is not known.
	born uint64
	// wrapped is true where the root and the first process of a namespace below it are not the command's own.
	wrapped bool
}

func newTree(root int, marker string, start time.Time) *tree {
	st, _ := statOf(root)
	return &tree{root: root, marker: []byte(MarkerName + "=" + marker), start: start, born: st.born}
}

// wait waits for the root to end, calls rest, and only then reaps the root: until then its id and its group's id can
// not be given to another process, so that rest never kills a stranger.
func (t *tree) wait(root *os.Process, rest func()) (*os.ProcessState, error) {
	for {
		err := unix.Waitid(unix.P_PID, t.root, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	rest()
	return root.Wait()
}

// killAll ends the tree while its root may still live.
func (t *tree) killAll() {
	t.killUntilNone(false)
}

// sweep ends what is left after the root ended. Where nothing was killed before and the run was short, only
// processes younger than the root are looked at, which keeps a short command cheap.
func (t *tree) sweep(killed bool) {
	t.killUntilNone(!killed && time.Since(t.start) < quickRun)
}

func (t *tree) killUntilNone(young bool) {
	for range killRounds {
		// The group stands still while its children are looked for: one that was killed before them would leave them
		// without a parent, and those without a marker could not be found any more.
		_ = syscall.Kill(-t.root, syscall.SIGSTOP)
		handles := t.handles(young)
		_ = syscall.Kill(-t.root, syscall.SIGKILL)
		if len(handles) == 0 {
			return
		}
		end(handles)
	}
}

// handles takes a handle on each member, and checks after that, so that a reused id is never hit.
func (t *tree) handles(young bool) []int {
	var handles []int
	for pid := range t.members(young) {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if !t.member(pid) && !t.descends(pid) {
			_ = unix.Close(fd)
			continue
		}
		handles = append(handles, fd)
	}
	return handles
}

// end kills processes by their handles and waits for them to be gone.
func end(handles []int) {
	for _, fd := range handles {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
	deadline := time.Now().Add(killWait)
	for _, fd := range handles {
		waitExited(fd, deadline)
		_ = unix.Close(fd)
	}
}

// EndNamespace kills the first process of a pid namespace, given by its id out here, and waits for it: the kernel
// ends it only after all others in the namespace are gone. Any other process is left alone.
func EndNamespace(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // gone already
	}
	defer func() { _ = unix.Close(fd) }()
	if !firstOfNamespace(pid) {
		return
	}
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	waitExited(fd, time.Now().Add(killWait))
}

// firstOfNamespace reads NSpid of proc_pid_status(5): the ids of a process in each namespace, the innermost last.
func firstOfNamespace(pid int) bool {
	data, err := os.ReadFile(procPath(pid, "status"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(data)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			list := strings.Fields(ids)
			return len(list) > 1 && list[len(list)-1] == "1"
		}
	}
	return false
}

// waitExited waits until the process of a handle has ended, or the deadline.
func waitExited(fd int, deadline time.Time) {
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return
		}
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// members returns the living processes of the tree.
func (t *tree) members(young bool) map[int]bool {
	found := make(map[int]bool)
	parents := make(map[int]int)
	look := func(pid int) {
		st, ok := statOf(pid)
		if !ok || st.dead() || st.born < t.born {
			return
		}
		parents[pid] = st.parent
		if st.group == t.root || st.session == t.root || t.marked(pid) {
			found[pid] = true
		}
	}
	from, all := 0, false
	if young {
		from, all = t.recent(look)
	}
	if !all {
		for _, pid := range processes() {
			if pid >= from {
				look(pid)
			}
		}
	}
	for grown := true; grown; {
		grown = false
		for pid, parent := range parents {
			if !found[pid] && (parent == t.root || found[parent]) {
				found[pid], grown = true, true
			}
		}
	}
	return found
}

// recent looks at each id from the root's to the last that was given, also to those that are given meanwhile: a short
// command is one or two ids, whatever else runs on the machine. all is false where they are so many that a walk of all
// processes is less work; from is the least id that a process of the tree may have.
func (t *tree) recent(look func(pid int)) (from int, all bool) {
	for next := t.root; ; {
		last, ok := lastID()
		if !ok || last < t.root {
			return 0, false
		}
		if last-t.root > recentMax {
			return t.root, false
		}
		if next > last {
			return t.root, true
		}
		for ; next <= last; next++ {
			look(next)
		}
	}
}

// member checks one process again, after a handle on it was taken.
func (t *tree) member(pid int) bool {
	st, ok := statOf(pid)
	return ok && !st.dead() && st.born >= t.born &&
		(pid == t.root || st.group == t.root || st.session == t.root || t.marked(pid))
}

// descends reports whether a process has a member among its ancestors.
func (t *tree) descends(pid int) bool {
	for depth := 0; depth < 64 && pid > 1; depth++ {
		st, ok := statOf(pid)
		if !ok || (depth == 0 && st.dead()) {
			return false
		}
		if pid = st.parent; pid == t.root || t.member(pid) {
			return true
		}
	}
	return false
}

// marked reports whether the environment with which a process was started carries the marker. In the middle of an exec
// it is empty for a moment.
func (t *tree) marked(pid int) bool {
	for range execRounds {
		env, err := os.ReadFile(procPath(pid, "environ"))
		if err != nil || len(env) > 0 {
			return err == nil && bytes.Contains(env, t.marker)
		}
		if st, ok := statOf(pid); !ok || st.dead() || st.parent == kernelThreads {
			return false
		}
		time.Sleep(execPause)
	}
	return false
}

// A process without an environment is looked at again, as long as an exec may take. The threads of the kernel, children
// of the process 2, have none.
const (
	execRounds, execPause = 20, 100 * time.Microsecond
	kernelThreads         = 2
)

// lastID is the id that was given last. Ids are given upwards and begin again at the bottom, which shows as a last one
// below that of a living process.
func lastID() (int, bool) {
	load, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(load))
	if err != nil || len(fields) != 5 {
		return 0, false
	}
	last, err := strconv.Atoi(fields[4])
	return last, err == nil
}

type stat struct {
	state                  byte
	parent, group, session int
	born                   uint64 // in clock ticks since the machine started
}

// dead processes wait to be reaped by a parent that may never do it; nothing runs in them.
func (s stat) dead() bool { return s.state == 'Z' || s.state == 'X' }

// statOf reads proc_pid_stat(5). The name in brackets may hold anything, so fields count from the last bracket.
func statOf(pid int) (stat, bool) {
	data, err := os.ReadFile(procPath(pid, "stat"))
	if err != nil {
		return stat{}, false
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 {
		return stat{}, false
	}
	s := stat{state: fields[0][0]}
	if s.born, err = strconv.ParseUint(fields[19], 10, 64); err != nil {
		return stat{}, false
	}
	for i, to := range []*int{&s.parent, &s.group, &s.session} {
		if *to, err = strconv.Atoi(fields[i+1]); err != nil {
			return stat{}, false
		}
	}
	return s, true
}

func processes() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1)
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func procPath(pid int, file string) string { return "/proc/" + strconv.Itoa(pid) + "/" + file }

// keepInherited keeps from commands the descriptors that this program itself was started with: Go marks those it
// opens, but not those it inherits.
func keepInherited() {
	_ = unix.CloseRange(3, ^uint(0)>>32, unix.CLOSE_RANGE_CLOEXEC) // a kernel without it has no better way either
}
