package within

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestVerify(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "real/in"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/proc", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	at := func(path, root string) Check {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			t.Fatal(err)
		}
		return Check{Path: path, Root: root, Dev: st.Dev, Ino: st.Ino}
	}
	other := at("/proc", "/proc")
	other.Ino++
	open := at("/proc", "/proc")
	open.ReadOnly = true
	for name, c := range map[string]struct {
		check Check
		says  string
	}{
		"SBX-14 a mount that is there":             {at("/proc", "/proc"), ""},
		"SBX-14 another file in its place":         {other, "another file"},
		"SBX-14 a mount that can be written":       {open, "can be written"},
		"SBX-14 what was mounted somewhere else":   {at(dir+"/real", dir), "0 mounts"},
		"SBX-14 a link in its place":               {Check{Path: dir + "/link", Root: dir, Dev: other.Dev, Ino: other.Ino - 1}, "another file"},
		"SBX-14 a link on the way":                 {Check{Path: dir + "/link/self", Root: dir}, ""},
		"SBX-14 a path that is not there any more": {Check{Path: dir + "/gone", Root: dir}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := verify([]Check{c.check})
			if name == "SBX-14 a link on the way" {
				if err == nil {
					t.Error("it was followed")
				}
				return
			}
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
	t.Run("SBX-14 mounts are counted by their plain paths", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "mountinfo")
		line := "36 35 98:0 / %s rw,noatime - ext3 /dev/root rw\n"
		text := strings.ReplaceAll(line, "%s", `/a\040b`) + strings.ReplaceAll(line, "%s", `/a\040b`) + strings.ReplaceAll(line, "%s", `/c\134d`) + "short\n"
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := mounts(file)
		if err != nil || len(got) != 2 || got["/a b"] != 2 || got[`/c\d`] != 1 {
			t.Errorf("got %v, %v", got, err)
		}
	})
	t.Run("SBX-4 an engine that gives users other numbers is refused", func(t *testing.T) {
		t.Parallel()
		own, err := os.ReadFile("/proc/self/uid_map")
		if err != nil {
			t.Fatal(err)
		}
		if err := sameUsers(string(own)); err != nil {
			t.Errorf("the same: got %v", err)
		}
		if err := sameUsers("0 100000 65536"); err == nil {
			t.Error("others: got no error")
		}
	})
}
