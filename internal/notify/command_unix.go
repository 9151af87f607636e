//go:build unix

package notify

import (
	"os/exec"
	"syscall"
)

// alone has a command and all that it starts end together, and no Ctrl+C of this terminal reach them.
func alone(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
