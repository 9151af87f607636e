package recovery

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// maxInside bounds what is decompressed at one place of a file.
const maxInside = 64 << 20

// unpackers begin where a file has their first bytes.
var unpackers = map[string]func(io.Reader) (io.Reader, error){
	"\x1f\x8b\x08":               func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"\x78\x01":                   func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) },
	"\x78\x5e":                   func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) },
	"\x78\x9c":                   func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) },
	"\x78\xda":                   func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) },
	"\x28\xb5\x2f\xfd":           func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r, zstd.WithDecoderConcurrency(1)) },
	"\xff\x06\x00\x00S2sTwO":     func(r io.Reader) (io.Reader, error) { return s2.NewReader(r), nil },
	"\xff\x06\x00\x00sNaPpY\x00": func(r io.Reader) (io.Reader, error) { return s2.NewReader(r), nil },
}

// words returns which of the words the files below a folder have: as bytes, in base64 at any of its three places, and in
// what is compressed at any place of a file. File names count, too.
func words(t *testing.T, dir string, all []string) (found []string) {
	t.Helper()
	see := func(b []byte) {
		for _, w := range all {
			if !slices.Contains(found, w) && slices.ContainsFunc(forms(w), func(form []byte) bool { return bytes.Contains(b, form) }) {
				found = append(found, w)
			}
		}
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		see([]byte(d.Name()))
		if !d.Type().IsRegular() {
			return nil
		}
		b, err := os.ReadFile(path)
		see(b)
		inside(b, see)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// inside shows what can be decompressed of bytes, as far as that goes, and what is compressed in that.
func inside(b []byte, see func([]byte)) {
	for magic, open := range unpackers {
		for at := 0; ; at++ {
			i := bytes.Index(b[at:], []byte(magic))
			if i < 0 {
				break
			}
			at += i
			r, err := open(bytes.NewReader(b[at:]))
			if err != nil {
				continue
			}
			var out bytes.Buffer
			_, _ = io.Copy(&out, io.LimitReader(r, maxInside)) // what follows is of something else
			if z, ok := r.(*zstd.Decoder); ok {
				z.Close()
			}
			see(out.Bytes())
		}
	}
}

// forms of a word in a file: itself, and the parts of its base64 that do not depend on its neighbours.
func forms(word string) [][]byte {
	all := [][]byte{[]byte(word)}
	for shift := range 3 {
		coded := base64.StdEncoding.EncodeToString(append(make([]byte, shift), word...))
		from := []int{0, 2, 3}[shift]
		to := len(coded) - 4
		all = append(all, []byte(coded[from:to]))
	}
	return all
}

// TestWords proves the search itself.
func TestWords(t *testing.T) {
	t.Parallel()
	const word = "zqsomeword"
	var gz, zl, zs, sn bytes.Buffer
	w1, w2, w4 := gzip.NewWriter(&gz), zlib.NewWriter(&zl), s2.NewWriter(&sn)
	w3, err := zstd.NewWriter(&zs)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []io.WriteCloser{w1, w2, w3, w4} {
		_, err := io.WriteString(w, "some "+word+" and more")
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
	}
	cases := map[string][]byte{"as it is": []byte("a " + word), "gzip": gz.Bytes(), "zlib": zl.Bytes(), "zstd": zs.Bytes(), "s2": sn.Bytes(),
		"base64": []byte(base64.StdEncoding.EncodeToString([]byte("a" + word + "b"))), "base64 again": []byte(base64.StdEncoding.EncodeToString([]byte("ab" + word)))}
	t.Run("PLUS-19a the search for words finds them in every form", func(t *testing.T) {
		for what, b := range cases {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "f"), slices.Concat([]byte("before "), b, []byte(" after")), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := words(t, dir, []string{word, "zqother"}); !slices.Equal(got, []string{word}) {
				t.Errorf("%s: %v", what, got)
			}
		}
	})
}
