package capture

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
)

// aside begins the names of files that are being written, here and by the tools in a sandbox: they are half of
// something.
const aside = ".inspan-"

// ownFiles are those that the toolrunner itself writes beside .harness in the directory of a session.
var ownFiles = [...]string{".session.meta", ".session.lock"}

// Own reports whether a path of a workspace, relative and with slashes, is a note of the harness, or a file that is
// being written: none that a run made, and none for others to write.
func Own(file string) bool {
	for _, own := range ownFiles {
		if strings.EqualFold(file, own) {
			return true
		}
	}
	return strings.HasPrefix(path.Base(file), aside)
}

// Write makes a file below a folder, with the folders of its path. It appears whole or not at all, so that half of one
// is never taken for it, and no other file is touched. One that is there is replaced with over, and else left as it is,
// which is no error.
func Write(root *os.Root, file string, data []byte, over bool) error {
	if err := root.MkdirAll(path.Dir(file), 0o755); err != nil {
		return err
	}
	half := path.Join(path.Dir(file), aside+rand.Text())
	f, err := root.OpenFile(half, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	switch err = errors.Join(err, f.Close()); {
	case err != nil:
	case over:
		if err = root.Rename(half, file); err == nil {
			return nil
		}
	default:
		if err = root.Link(half, file); errors.Is(err, fs.ErrExist) {
			err = nil // somebody else brought it meanwhile
		}
	}
	return errors.Join(err, root.Remove(half))
}
