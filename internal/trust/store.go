package trust

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/inspan/inspan/internal/disk"
)

// markFile is in the folder of a station's store: whoever made the store put it there, and the record knows it. A store
// that comes with a directory has none, or one that the record does not know.
const markFile = "made-here"

// maxMark bounds it, in bytes.
const maxMark = 128

// beside are the names in the folder of a store that are not of the store.
var beside = map[string]bool{"config.yaml": true, ".gitignore": true}

// ReadStore is the store in a folder as a part; there is none where the folder is not there or has no store.
func ReadStore(dir string) (p Part, there bool, err error) {
	p = Part{Kind: Store, Files: map[string][]byte{}}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return p, false, nil
	}
	if err != nil {
		return p, false, err
	}
	for _, e := range entries {
		there = there || !beside[e.Name()]
	}
	if !there {
		return p, false, nil
	}
	if p.Path, err = realPath(dir); err != nil {
		return p, true, err
	}
	p.Files[markFile] = nil
	at := filepath.Join(p.Path, markFile)
	if info, err := os.Lstat(at); err == nil && info.Mode().IsRegular() && info.Size() <= maxMark {
		if p.Files[markFile], err = os.ReadFile(at); err != nil {
			return p, true, err
		}
	}
	return p, true, nil
}

// MarkStore gives the store in a folder, which is made where it is not there, a mark that no one can guess.
func MarkStore(dir string) (Part, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Part{}, err
	}
	if err := disk.Replace(filepath.Join(dir, markFile), []byte(rand.Text()+"\n"), 0o600); err != nil {
		return Part{}, err
	}
	p, _, err := ReadStore(dir)
	return p, err
}
