//go:build linux

package mcp_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/inspan/inspan/internal/mcp/mcptest"
)

// killVar makes this test the process that is killed; its value is the folder with the workspace.
const killVar = "INSPAN_TEST_MCP_KILLED"

func TestKilled(t *testing.T) {
	if root := os.Getenv(killVar); root != "" {
		h := newHouse(t, pinned(t, program(t, mcptest.Good), nil), usual)
		h.root = root
		h.opener = h.opening()
		r, err := h.do(within(t), "r1", "r1", "c1", "hold", `{}`)
		if err != nil || r.Output != "locked" {
			t.Fatalf("%q %v", r.Output, err)
		}
		if err := os.WriteFile(filepath.Join(root, "ready"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		<-within(t).Done() // it is killed before
		return
	}
	t.Parallel()
	t.Run("SAFE-9 a server that lives on between calls ends with a toolrunner that is killed", func(t *testing.T) {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		root := t.TempDir()
		cmd := exec.Command(self, "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), killVar+"="+root, "TMPDIR="+t.TempDir())
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_ = cmd.Wait() // it is killed
		}()
		soon(t, "the server runs", func() bool {
			select {
			case <-gone:
				t.Fatal("it ended by itself")
			default:
			}
			_, err := os.Stat(filepath.Join(root, "ready"))
			return err == nil
		})
		f, err := os.OpenFile(filepath.Join(root, "w", "held"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		free := func() bool { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil }
		if free() {
			t.Fatal("the server does not live on")
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-gone
		soon(t, "the server has ended", free)
	})
}
