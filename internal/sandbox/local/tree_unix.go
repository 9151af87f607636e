//go:build unix && !linux

package local

import (
	"os"
	"syscall"
	"time"
)

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// maxRSS is in bytes, as the BSDs and macOS count.
func maxRSS(u *syscall.Rusage) int64 { return int64(u.Maxrss) }

// tree is a process group. Without /proc a process that leaves the group cannot be found again.
type tree struct {
	root    int
	wrapped bool
}

func newTree(root int, _ string, _ time.Time) *tree { return &tree{root: root} }

// wait calls rest after the root was reaped: there is no portable way to wait without reaping.
func (t *tree) wait(root *os.Process, rest func()) (*os.ProcessState, error) {
	state, err := root.Wait()
	rest()
	return state, err
}

func (t *tree) killAll()     { _ = syscall.Kill(-t.root, syscall.SIGKILL) }
func (t *tree) sweep(_ bool) { _ = syscall.Kill(-t.root, syscall.SIGKILL) }

// keepInherited does nothing here: there is no call that marks all descriptors at once.
func keepInherited() {}
