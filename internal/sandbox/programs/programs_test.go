package programs_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/inspan/inspan/internal/sandbox/programs"
)

// tree makes files, links ("->") and hard links ("=>") below a directory.
func tree(t *testing.T, entries map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range entries {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch {
		case len(content) > 2 && content[:2] == "->":
			err = os.Symlink(content[2:], at)
		case len(content) > 2 && content[:2] == "=>":
			continue
		default:
			err = os.WriteFile(at, []byte(content), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range entries {
		if len(content) > 2 && content[:2] == "=>" {
			if err := os.Link(filepath.Join(dir, content[2:]), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func TestFind(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"bin/curl": "the program curl", "bin/curl-old": "=>bin/curl", "lib/x/data": "the program curl", "lib/x/same": "another program",
		"bin/wget": "->busybox", "bin/busybox": "many programs", "bin/vi": "->../etc/vi", "etc/vi": "->../bin/vim.tiny", "bin/vim.tiny": "an editor",
		"bin/mkfs": "makes", "sbin/mkfs.ext4": "makes more", "bin/ls": "lists", "bin/far": "->/etc/passwd",
	})
	for name, c := range map[string]struct {
		names       []string
		files, left []string
	}{
		"by name, with its hard link and a copy": {[]string{"curl"}, []string{"bin/curl", "bin/curl-old", "lib/x/data"}, nil},
		"by a path":                              {[]string{dir + "/bin/curl"}, []string{"bin/curl", "bin/curl-old", "lib/x/data"}, nil},
		"what links lead to":                     {[]string{"vi"}, []string{"bin/vim.tiny"}, nil},
		"a pattern":                              {[]string{"mkfs*"}, []string{"bin/mkfs", "sbin/mkfs.ext4"}, nil},
		"one of many in a file is left":          {[]string{"wget"}, nil, []string{"wget"}},
		"the file of many, by its own name":      {[]string{"busybox"}, []string{"bin/busybox"}, nil},
		"what leads out of the directories":      {[]string{"far"}, nil, nil},
		"what is not there":                      {[]string{"nc"}, nil, nil},
		"none":                                   {nil, nil, nil},
	} {
		t.Run("GUARD-12 "+name, func(t *testing.T) {
			t.Parallel()
			var f programs.Finder
			got, err := f.Find(c.names, []string{dir, dir + "/bin", dir + "/missing"})
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, name := range c.files {
				want = append(want, filepath.Join(dir, name))
			}
			if !reflect.DeepEqual(got.Files, want) || !reflect.DeepEqual(got.Left, c.left) {
				t.Errorf("got %v, %v, want %v, %v", got.Files, got.Left, want, c.left)
			}
		})
	}
	t.Run("GUARD-12 what was installed meanwhile is found", func(t *testing.T) {
		t.Parallel()
		dir := tree(t, map[string]string{"bin/ls": "lists"})
		var f programs.Finder
		if got, err := f.Find([]string{"nc"}, []string{dir}); err != nil || len(got.Files) != 0 {
			t.Fatal(got, err)
		}
		if err := os.WriteFile(dir+"/bin/nc", []byte("nc"), 0o755); err != nil {
			t.Fatal(err)
		}
		if got, err := f.Find([]string{"nc"}, []string{dir}); err != nil || len(got.Files) != 1 {
			t.Errorf("got %v, %v", got, err)
		}
	})
	t.Run("GUARD-12 what is no name is refused", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"", "a/b", "[", "a\x00"} {
			if err := programs.Check([]string{name}); err == nil {
				t.Errorf("%q: no error", name)
			}
		}
	})
}

func BenchmarkFind(b *testing.B) {
	dirs := []string{"/usr", "/bin", "/sbin", "/lib", "/lib64"}
	names := []string{"halt", "mke2fs", "mkfs*", "mkswap", "poweroff", "reboot", "shutdown", "wipefs"}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			var f programs.Finder
			if _, err := f.Find(names, dirs); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("again", func(b *testing.B) {
		var f programs.Finder
		if _, err := f.Find(names, dirs); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := f.Find(names, dirs); err != nil {
				b.Fatal(err)
			}
		}
	})
}
