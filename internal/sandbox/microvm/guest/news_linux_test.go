package guest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pipe is news that a test tells: whoever writes to it says that there are some.
func pipe(t *testing.T) (*news, int) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	n := &news{fds[0]}
	t.Cleanup(func() {
		n.close()
		_ = unix.Close(fds[1])
	})
	return n, fds[1]
}

func TestNews(t *testing.T) {
	t.Parallel()
	t.Run("SBX-20 what comes late is waited for, and looked for only when there are news", func(t *testing.T) {
		t.Parallel()
		n, tell := pipe(t)
		looks := 0
		err := n.until("a device", func() (bool, error) {
			if looks++; looks < 4 {
				_, err := unix.Write(tell, []byte("add@/devices/x\x00"))
				return false, err
			}
			return true, nil
		})
		if err != nil || looks != 4 {
			t.Errorf("got %v after %d looks, want 4", err, looks)
		}
		if left, err := unix.Read(n.fd, make([]byte, 16)); !errors.Is(err, unix.EAGAIN) {
			t.Errorf("news are left: %d, %v", left, err)
		}
	})
	t.Run("SBX-20 what is there needs no news, and what goes wrong ends the wait", func(t *testing.T) {
		t.Parallel()
		n, _ := pipe(t)
		path := filepath.Join(t.TempDir(), "device")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := n.await(path); err != nil {
			t.Error(err)
		}
		if err := n.await(path + "/below"); err == nil {
			t.Error("what cannot be looked at: no error")
		}
	})
	t.Run("SBX-20 a wait has an end", func(t *testing.T) {
		t.Parallel()
		n, tell := pipe(t)
		if err := ready(n.fd, unix.POLLIN, time.Now().Add(20*time.Millisecond)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v, want os.ErrDeadlineExceeded", err)
		}
		if _, err := unix.Write(tell, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := ready(n.fd, unix.POLLIN, time.Now().Add(time.Minute)); err != nil {
			t.Error(err)
		}
	})
	t.Run("SBX-18 a control group in which no one is needs no wait, one that is not there is an error", func(t *testing.T) {
		t.Parallel()
		group := t.TempDir()
		if err := os.WriteFile(group+"/cgroup.events", []byte("populated 0\nfrozen 0\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := emptied(group); err != nil {
			t.Error(err)
		}
		if err := emptied(group + "/none"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
}
