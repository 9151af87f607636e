package provision

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// ownFolder makes the folder of our files in a workspace, and reports whether it is a folder there and no link.
func ownFolder(root *os.Root) bool {
	info, err := root.Lstat(harnessDir)
	if errors.Is(err, fs.ErrNotExist) {
		return root.Mkdir(harnessDir, 0o755) == nil
	}
	return err == nil && info.IsDir()
}

// writeNew puts a text in the place of whatever has that name: a reader finds all of it, or what was there before.
func writeNew(root *os.Root, name, text string) error {
	part := name + "." + rand.Text() + ".part"
	f, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(part, name)
	}
	if err == nil {
		return nil
	}
	if err := root.RemoveAll(name); err != nil { // a folder may be there, which no file takes the place of
		return errors.Join(err, root.Remove(part))
	}
	if err := root.Rename(part, name); err != nil {
		return errors.Join(err, root.Remove(part))
	}
	return nil
}

// writeJSON is writeNew for a value.
func writeJSON(root *os.Root, name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return writeNew(root, name, string(text)+"\n")
}

// maxSmall bounds what is read of a file that any program may have written, in bytes.
const maxSmall = 64 << 10

func readSmall(root *os.Root, name string) ([]byte, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSmall))
}

// exclude keeps the files out of the commits of a git repository that is the workspace.
func exclude(root *os.Root) error {
	const file = ".git/info/exclude"
	if info, err := root.Lstat(path.Dir(file)); err != nil || !info.IsDir() {
		return nil
	}
	text, err := readSmall(root, file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) || len(text) == maxSmall {
		return nil // it is not as git makes it: leave it
	}
	lines := strings.Split(string(text), "\n")
	for _, name := range []string{metaFile, lockFile, harnessDir + "/"} {
		if !slices.Contains(lines, "/"+name) {
			lines = append(lines, "/"+name)
		}
	}
	f, err := root.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.TrimLeft(strings.Join(lines, "\n"), "\n") + "\n")
	return errors.Join(err, f.Close())
}
