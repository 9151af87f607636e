package deploy_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestBuild looks at how the programs of images and releases are compiled.
func TestBuild(t *testing.T) {
	t.Parallel()
	t.Run("DEPL-5 what is left out of the images' build has nothing that is compiled", func(t *testing.T) {
		t.Parallel()
		for line := range strings.Lines(string(read(t, "../.dockerignore"))) {
			pattern := strings.TrimSpace(line)
			if strings.HasPrefix(pattern, ".") || strings.HasPrefix(pattern, "**/") && !strings.HasSuffix(pattern, ".go") {
				continue // no packages are there
			}
			dirs, err := filepath.Glob(filepath.Join("..", pattern))
			if err != nil {
				t.Fatal(err)
			}
			for _, dir := range dirs {
				err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
					if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
						t.Errorf("%s leaves %s out", pattern, path)
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	})
	const profile = "release/inspan.pgo"
	t.Run("whatever is given to others is compiled with the profile", func(t *testing.T) {
		t.Parallel()
		for _, path := range []string{"../Dockerfile", "images.sh", "release/build.go"} {
			if !bytes.Contains(read(t, path), []byte("-pgo=deploy/"+profile)) {
				t.Errorf("%s does not name deploy/%s", path, profile)
			}
		}
	})
	t.Run("the profile is of this program: the packages that it names are there", func(t *testing.T) {
		t.Parallel()
		z, err := gzip.NewReader(bytes.NewReader(read(t, profile)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		named, gone := map[string]bool{}, 0
		for _, m := range regexp.MustCompile(`github\.com/inspan/inspan/((?:internal|pkg|services)/[a-z0-9/]+)\.`).FindAllSubmatch(text, -1) {
			if dir := string(m[1]); !named[dir] {
				named[dir] = true
				if _, err := os.Stat(filepath.Join("..", dir)); err != nil {
					if _, err := os.Stat(filepath.Join("..", dir+".go")); err != nil { // the name of a file
						gone++
					}
				}
			}
		}
		if len(named) < 20 || gone*10 > len(named) {
			t.Errorf("%d of %d packages are not there any more: make profile", gone, len(named))
		}
	})
}
