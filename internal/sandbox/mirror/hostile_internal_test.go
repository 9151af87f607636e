package mirror

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// listing makes what find prints: for each entry its type, mode, size, link and path.
func listing(entries ...[5]string) string {
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(strings.Join([]string{e[0], e[1], e[2], "1700000000.5000000000", "1700000000.1", "7", e[3], e[4]}, "\x00") + "\x00")
	}
	return b.String() + "end\x00"
}

func TestHostileListings(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", MaxPath+1)
	for name, text := range map[string]string{
		"parent":                  listing([5]string{"f", "644", "1", "", "../x"}),
		"absolute":                listing([5]string{"f", "644", "1", "", "/etc/x"}),
		"dots inside":             listing([5]string{"d", "755", "0", "", "a"}, [5]string{"f", "644", "1", "", "a/../b"}),
		"the workspace itself":    listing([5]string{"d", "755", "0", "", "."}),
		"no name":                 listing([5]string{"f", "644", "1", "", ""}),
		"a long name":             listing([5]string{"f", "644", "1", "", long}),
		"below a link":            listing([5]string{"l", "777", "1", "/etc", "a"}, [5]string{"f", "644", "1", "", "a/passwd"}),
		"below a file":            listing([5]string{"f", "644", "1", "", "a"}, [5]string{"f", "644", "1", "", "a/b"}),
		"below nothing":           listing([5]string{"f", "644", "1", "", "a/b"}),
		"twice":                   listing([5]string{"f", "644", "1", "", "a"}, [5]string{"l", "777", "1", "/etc", "a"}),
		"an unknown type":         listing([5]string{"D", "644", "1", "", "a"}),
		"no type":                 listing([5]string{"", "644", "1", "", "a"}),
		"a bad mode":              listing([5]string{"f", "9", "1", "", "a"}),
		"a negative size":         listing([5]string{"f", "644", "-1", "", "a"}),
		"a link to nothing":       listing([5]string{"l", "777", "1", "", "a"}),
		"a link that is too long": listing([5]string{"l", "777", "1", long, "a"}),
		"cut off":                 strings.TrimSuffix(listing([5]string{"f", "644", "1", "", "a"}), "end\x00"),
		"cut in a field":          "f\x00644\x00end\x00",
		"nothing":                 "",
		"more than its end":       listing() + "x",
	} {
		t.Run("SBX-20 "+name+" is refused", func(t *testing.T) {
			t.Parallel()
			if got, err := parse([]byte(text), nil, false); !errors.Is(err, ErrHostile) {
				t.Errorf("got %v, %v, want ErrHostile", got, err)
			}
		})
	}
	t.Run("SBX-20 files and trees at their limit are taken, larger ones refused", func(t *testing.T) {
		t.Parallel()
		file := func(size int64, name string) [5]string { return [5]string{"f", "644", fmt.Sprint(size), "", name} }
		if _, err := parse([]byte(listing(file(MaxFile, "a"), file(MaxFile, "b"), file(MaxFile, "c"), file(MaxFile, "d"))), nil, false); err != nil {
			t.Error(err)
		}
		for _, text := range []string{listing(file(MaxFile+1, "a")), listing(file(MaxFile, "a"), file(MaxFile, "b"), file(MaxFile, "c"), file(MaxFile, "d"), file(1, "e"))} {
			if _, err := parse([]byte(text), nil, false); !errors.Is(err, ErrTooMuch) {
				t.Errorf("got %v, want ErrTooMuch", err)
			}
		}
	})
	t.Run("SBX-20 devices, pipes and sockets stay where they are", func(t *testing.T) {
		t.Parallel()
		got, err := parse([]byte(listing([5]string{"c", "666", "0", "", "c"}, [5]string{"b", "666", "0", "", "b"}, [5]string{"p", "666", "0", "", "p"}, [5]string{"s", "666", "0", "", "s"}, [5]string{"f", "4755", "1", "", "f"})), nil, false)
		if err != nil || len(got) != 1 || got["f"].mode != 0o755 {
			t.Errorf("got %v, %v, want the file alone, without its set-user bit", got, err)
		}
	})
	t.Run("SBX-20 names that are one file on a machine that folds case are refused there", func(t *testing.T) {
		t.Parallel()
		text := []byte(listing([5]string{"f", "644", "1", "", ".git"}, [5]string{"f", "644", "1", "", ".GIT"}))
		if _, err := parse(text, nil, true); !errors.Is(err, ErrHostile) {
			t.Errorf("got %v, want ErrHostile", err)
		}
		if got, err := parse(text, nil, false); err != nil || len(got) != 2 {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

// alone makes a copy with a workspace of this machine alone.
func alone(t *testing.T) (*copied, string) {
	t.Helper()
	ws := filepath.Join(t.TempDir(), "ws")
	if err := os.MkdirAll(ws, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(ws)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return &copied{root: root, here: tree{}, there: tree{}}, ws
}

func TestHostileArchives(t *testing.T) {
	t.Parallel()
	when := time.Unix(1700000000, 0)
	wanted := func() tree {
		return tree{"in/file": {kind: 'f', mode: 0o644, size: 4, time: when, stamp: "x"}}
	}
	pack := func(h tar.Header, body string) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		h.ModTime, h.Mode = when, 0o644
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(body))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write([]byte(body))
		_ = w.Close()
		return b.Bytes()
	}
	for name, archive := range map[string][]byte{
		"a name outside":      pack(tar.Header{Name: "../file", Typeflag: tar.TypeReg}, "evil"),
		"an absolute name":    pack(tar.Header{Name: "/etc/file", Typeflag: tar.TypeReg}, "evil"),
		"one not asked for":   pack(tar.Header{Name: "other", Typeflag: tar.TypeReg}, "evil"),
		"a link":              pack(tar.Header{Name: "in/file", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, ""),
		"a hard link":         pack(tar.Header{Name: "in/file", Typeflag: tar.TypeLink, Linkname: "../../x"}, ""),
		"a device":            pack(tar.Header{Name: "in/file", Typeflag: tar.TypeChar}, ""),
		"a directory instead": pack(tar.Header{Name: "in/file", Typeflag: tar.TypeDir}, ""),
	} {
		t.Run("SBX-20 "+name+" is refused", func(t *testing.T) {
			t.Parallel()
			c, ws := alone(t)
			if err := os.Mkdir(ws+"/in", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := c.unpack(bytes.NewReader(archive), wanted()); !errors.Is(err, ErrHostile) {
				t.Errorf("got %v, want ErrHostile", err)
			}
			if list, err := os.ReadDir(ws + "/in"); err != nil || len(list) != 0 {
				t.Errorf("left: %v, %v", list, err)
			}
		})
	}
	good := pack(tar.Header{Name: "in/file", Typeflag: tar.TypeReg}, "good")
	t.Run("SBX-20 a file of another size than was listed is left out", func(t *testing.T) {
		t.Parallel()
		c, ws := alone(t)
		_ = os.Mkdir(ws+"/in", 0o755)
		left := wanted()
		if err := c.unpack(bytes.NewReader(pack(tar.Header{Name: "in/file", Typeflag: tar.TypeReg}, "longer")), left); err != nil || len(left) != 1 {
			t.Errorf("got %v, %v left", err, left)
		}
	})
	t.Run("SBX-20 a link that leads outside, put in the place of a directory, is not followed", func(t *testing.T) {
		t.Parallel()
		c, ws := alone(t)
		outside := t.TempDir()
		if err := os.Symlink(outside, ws+"/in"); err != nil {
			t.Fatal(err)
		}
		if err := c.unpack(bytes.NewReader(good), wanted()); err == nil {
			t.Error("got no error")
		}
		if list, err := os.ReadDir(outside); err != nil || len(list) != 0 {
			t.Errorf("outside: %v, %v", list, err)
		}
	})
	t.Run("ART-13 what is as it was listed comes whole", func(t *testing.T) {
		t.Parallel()
		c, ws := alone(t)
		_ = os.Mkdir(ws+"/in", 0o755)
		left := wanted()
		if err := c.unpack(bytes.NewReader(good), left); err != nil || len(left) != 0 {
			t.Errorf("got %v, %v left", err, left)
		}
		if data, err := os.ReadFile(ws + "/in/file"); err != nil || string(data) != "good" {
			t.Errorf("got %q, %v", data, err)
		}
	})
}

// TestSpeech compares what is passed on with what was said, however it is cut into pieces.
func TestSpeech(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nonce := "ABAC"
		body := rapid.StringOfN(rapid.RuneFrom([]rune("AB\n1!")), 0, 60, -1).Filter(func(s string) bool { return !strings.Contains(s+nonce[:3], nonce) && !strings.Contains(s, nonce) }).Draw(t, "body")
		code := rapid.IntRange(0, 255).Draw(t, "code")
		text := fmt.Sprintf("42\n%s%s %d\n0m0.0s 0m0.0s\n0m1.5s 0m0.25s\n", body, nonce, code)
		s := newSpeech(nonce, 1)
		var got bytes.Buffer
		l := &line{speech: s, to: &got, first: true}
		for rest := []byte(text); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			_, _ = l.Write(rest[:n])
			rest = rest[n:]
		}
		l.flush()
		at := strings.Index(body+nonce, nonce)
		if pid, refusal := s.started(); pid != 42 || refusal != "" || got.String() != (body + nonce)[:at] {
			t.Fatalf("got %d, %q, %q, want 42 and %q", pid, refusal, got.String(), body)
		}
		if at == len(body) && (!s.done() || s.code != code || s.user != 1500*time.Millisecond || s.system != 250*time.Millisecond) {
			t.Fatalf("got %v, %d, %v, %v", s.done(), s.code, s.user, s.system)
		}
	})
}

// FuzzListing reads hostile listings: whatever is taken has names that stay inside.
func FuzzListing(f *testing.F) {
	f.Add([]byte(listing([5]string{"d", "755", "0", "", "a"}, [5]string{"f", "644", "1", "", "a/b"}, [5]string{"l", "777", "1", "../..", "l"})))
	f.Add([]byte("end\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		found, err := parse(data, map[string]bool{"denied": true}, true)
		if err != nil {
			return
		}
		for name, e := range found {
			if !filepath.IsLocal(name) || name == "denied" || strings.HasPrefix(name, "denied/") || e.size < 0 || e.size > MaxFile || e.mode&^0o777 != 0 {
				t.Errorf("took %q: %+v", name, e)
			}
		}
	})
}

func TestHostileUse(t *testing.T) {
	t.Parallel()
	t.Run("SBX-16 what another machine says of the use of a command is bounded", func(t *testing.T) {
		t.Parallel()
		const most = 1 << 50
		if got, want := (Used{-1, 1 << 62, -1 << 62, 1 << 62, 7}).bounded(), (Used{0, most, 0, most, 7}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}
