package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Written says what became of a file or a folder.
type Written struct {
	Path string `json:"path"`
	// State is made, kept or replaced.
	State string `json:"state"`
}

// IsFile reports whether a path is one of a file.
func IsFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// WriteFile writes a file that only its owner may change, unless it is there. It is whole or not there at all.
func WriteFile(path string, text []byte, force bool) (Written, error) {
	m := Written{path, "made"}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return m, fmt.Errorf("make the folder: %w", err)
	}
	if _, err := os.Lstat(path); err == nil {
		if m.State = "kept"; !force {
			return m, nil
		}
		m.State = "replaced"
	} else if !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	aside, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return m, fmt.Errorf("write %s: %w", path, err)
	}
	defer func() { _ = os.Remove(aside.Name()) }() // it has moved where all went well
	_, err = aside.Write(text)
	if err = errors.Join(err, aside.Chmod(0o644), aside.Close()); err == nil {
		if m.State == "replaced" {
			err = os.Rename(aside.Name(), path)
		} else if err = os.Link(aside.Name(), path); errors.Is(err, fs.ErrExist) { // another process was faster
			m.State, err = "kept", nil
		}
	}
	if err != nil {
		return m, fmt.Errorf("write %s: %w", path, err)
	}
	return m, nil
}
