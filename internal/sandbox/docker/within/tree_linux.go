package within

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox/local"
)

// endTick is how often is looked whether what was killed is gone.
const endTick = time.Millisecond

// endAll ends every descendant and reports whether none is left.
func (f *family) endAll() bool {
	tick := time.NewTicker(endTick)
	defer tick.Stop()
	limit := time.NewTimer(endMax)
	defer limit.Stop()
	for {
		select {
		case <-f.exited:
			return true
		case <-limit.C:
			return false
		default:
		}
		// They stand still while they are looked for: none makes another meanwhile.
		stopped := map[int]bool{}
		for grown := true; grown; {
			grown = false
			for _, pid := range descendants(true) {
				if !stopped[pid] {
					stopped[pid], grown = true, true
					_ = unix.Kill(pid, unix.SIGSTOP)
				}
			}
		}
		for pid := range stopped {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		select {
		case <-f.exited:
			return true
		case <-tick.C:
		case <-limit.C:
			return false
		}
	}
}

// descendants are the processes that this one is an ancestor of; with dead, also those whose first thread has ended:
// others may go on.
func descendants(dead bool) []int {
	children := map[int][]int{}
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	names, _ := dir.Readdirnames(-1)
	_ = dir.Close()
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if parent, alive := local.ParentOf(pid); parent >= 0 && (alive || dead) {
			children[parent] = append(children[parent], pid)
		}
	}
	list := children[os.Getpid()]
	for i := 0; i < len(list); i++ {
		list = append(list, children[list[i]]...)
	}
	return list
}

// answer answers a question about this command's processes.
func (f *family) answer(q Question) Answer {
	a := Answer{ID: q.ID}
	for _, pid := range descendants(false) {
		switch {
		case q.PID == 0:
			if p, ok := local.Describe(pid); ok {
				a.List = append(a.List, Process{PID: pid, Parent: p.Parent, Args: p.Args, UserMS: p.User.Milliseconds(),
					SystemMS: p.System.Milliseconds(), RSS: p.RSS})
			}
		case q.PID == pid:
			a.Found = unix.Kill(pid, unix.Signal(q.Signal)) == nil
			a.Exited = a.Found && q.Wait && f.away(pid)
		}
	}
	return a
}

// away waits until a process is gone, but not for ever.
func (f *family) away(pid int) bool {
	tick := time.NewTicker(endTick)
	defer tick.Stop()
	limit := time.NewTimer(endMax / 5)
	defer limit.Stop()
	for {
		if _, alive := local.ParentOf(pid); !alive {
			return true
		}
		select {
		case <-tick.C:
		case <-limit.C:
			return false
		}
	}
}
