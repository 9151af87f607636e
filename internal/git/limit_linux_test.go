package git

import (
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What a git has started before its limits are set is held by them, too.
func TestLimit(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-14 GIT-11 limits reach what a process has started, and what these started", func(t *testing.T) {
		t.Parallel()
		if !canLimit() {
			t.Skip("NOT TESTED: this kernel does not list the children of a process; a shell sets the limits")
		}
		cmd := exec.Command("/bin/sh", "-c", "sh -c 'sleep 600 & echo; wait' & wait")
		cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL); _ = cmd.Wait() }()
		if _, err := out.Read(make([]byte, 1)); err != nil { // all three run
			t.Fatal(err)
		}
		g := &runner{cfg: Config{Limits: Limits{Memory: 1 << 30, Pack: 1 << 20}}}
		if err := g.limit(call{bound: true}, cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
		seen := 0
		for pids := []int{cmd.Process.Pid}; len(pids) > 0; seen++ {
			children, err := childrenOf(pids[0])
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []struct {
				resource int
				most     uint64
			}{{unix.RLIMIT_DATA, 1 << 30}, {unix.RLIMIT_FSIZE, 1<<20 + ulimitBlock}} {
				var is unix.Rlimit
				if err := unix.Prlimit(pids[0], want.resource, nil, &is); err != nil || is.Max != want.most || is.Cur != want.most {
					t.Errorf("process %d, limit %d: %+v, %v, want %d", seen+1, want.resource, is, err, want.most)
				}
			}
			pids = append(pids[1:], children...)
		}
		if seen != 3 {
			t.Errorf("%d processes were seen, want 3", seen)
		}
	})
	t.Run("SAFE-14 a process that has ended is no error", func(t *testing.T) {
		t.Parallel()
		g := &runner{program: "/bin/true", cfg: Config{Limits: Limits{Memory: 1 << 30}}}
		cmd := exec.Command("/bin/true")
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		args, bind := g.bounded(call{args: []string{"status"}})
		if err := bind(cmd.Process.Pid); err != nil || !strings.Contains(strings.Join(args, " "), "/bin/true") {
			t.Errorf("%v: %v", args, err)
		}
	})
}
