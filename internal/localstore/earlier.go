package localstore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// ErrEarlier means that there is the store of a version of inspan that wrote another form, and none of this one.
var ErrEarlier = errors.New("the store of an earlier version of inspan is there and was not converted")

// earlierMagic begins the files of before, which SQLite wrote.
const earlierMagic = "SQLite format 3\x00"

// EarlierPath is where the store of before stands that this one follows.
func EarlierPath(path string) string { return strings.TrimSuffix(path, filepath.Ext(path)) + ".db" }

// earlier refuses to begin a new file where that of an earlier version stands.
func earlier(path string) error {
	old := EarlierPath(path)
	f, err := os.Open(old)
	if errors.Is(err, os.ErrNotExist) || old == path {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	begin := make([]byte, len(earlierMagic))
	if _, err := io.ReadFull(f, begin); err != nil || string(begin) != earlierMagic {
		return nil // no store, or one that holds nothing
	}
	return fmt.Errorf("%w: %s; convert it with \"make local-store STORE=%s\" in the sources of inspan, or move it away to begin with an empty store", ErrEarlier, old, filepath.Dir(path))
}
