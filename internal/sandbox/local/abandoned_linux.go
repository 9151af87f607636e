package local

import (
	"bytes"
	"context"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Abandoned reports whether a name is that of something a sandbox made whose owner is known to be gone.
func Abandoned(name string) bool {
	owner, ok := ownerIn(name)
	return ok && !lives(owner)
}

// EndAbandoned kills the processes that carry the marker of an owner that is known to be gone, and returns how many
// there were. It looks again until it finds none, because they may fork meanwhile.
func EndAbandoned(ctx context.Context) int {
	total := 0
	for range killRounds {
		var handles []int
		for _, pid := range processes() {
			if !leftBehind(pid) {
				continue
			}
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				continue
			}
			if !leftBehind(pid) { // the id may have been given to another between
				_ = unix.Close(fd)
				continue
			}
			handles = append(handles, fd)
		}
		if total += len(handles); len(handles) == 0 || ctx.Err() != nil {
			return total
		}
		end(handles)
	}
	return total
}

// leftBehind reports whether a living process carries the marker of an owner that is gone.
func leftBehind(pid int) bool {
	env, err := os.ReadFile(procPath(pid, "environ"))
	if err != nil {
		return false
	}
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		value, ok := strings.CutPrefix(string(entry), MarkerName+"=")
		if !ok {
			continue
		}
		st, there := statOf(pid)
		return Abandoned(SandboxPrefix+value) && there && !st.dead()
	}
	return false
}
