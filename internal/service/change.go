package service

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/inspan/inspan/internal/agentfile"
)

// ErrNoFile means that there is no configuration file of the layer that was to be changed, and none may be made.
var ErrNoFile = errors.New("there is no such configuration file")

// FileOf is the path of the configuration file of a layer, FromProject or FromSystem, also where there is none yet:
// that of the project would then be in dir. It returns ErrNoFile, wrapped, where that layer is not read.
func FileOf(layer, dir string) (string, error) {
	switch one := os.Getenv(ConfigVariable); {
	case one == "none":
		return "", fmt.Errorf("%w: %s=none reads none", ErrNoFile, ConfigVariable)
	case one != "" && layer == FromProject:
		return "", fmt.Errorf("%w: %s names %s in place of the project's", ErrNoFile, ConfigVariable, one)
	case one != "":
		return one, nil
	case layer == FromProject:
		if path := ProjectFile(dir); path != "" {
			return path, nil
		}
		return filepath.Join(dir, ProjectFolder, ConfigFile), nil
	}
	if path := SystemFile(); path != "" {
		return path, nil
	}
	return "", fmt.Errorf("%w: set HOME or XDG_CONFIG_HOME", ErrNoFile)
}

// maxChanges bounds how often a change is made again because somebody else changed the file meanwhile.
const maxChanges = 8

// Change makes changes of a configuration file, which is made where there is none, and reports whether there was one
// to make. The file is replaced as a whole or not at all, and only by one that is understood: the error is that of
// Discover. A link stays one, what it names is changed.
func Change(layer, path string, edits ...agentfile.Edit) (changed bool, warnings []agentfile.Warning, err error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	for range maxChanges {
		before, mode, err := contents(path)
		if err != nil {
			return false, nil, err
		}
		after := before
		for _, e := range edits {
			if after, err = agentfile.EditSettings(path, after, forms(Table()), e); err != nil {
				return false, nil, err
			}
		}
		if warnings, err = sound(layer, path, before, after, mode); err != nil {
			return false, warnings, err
		}
		if bytes.Equal(before, after) {
			return false, warnings, nil
		}
		done, err := exchange(path, before, after, mode)
		if done || err != nil {
			return done, warnings, err
		}
	}
	return false, nil, fmt.Errorf("configuration %s: others change it all the time: try again", path)
}

// sound refuses a text that is not understood, and one that no program could start with although it could with the one
// before.
func sound(layer, path string, before, after []byte, mode fs.FileMode) ([]agentfile.Warning, error) {
	base := filepath.Dir(path)
	if layer == FromProject {
		base = filepath.Dir(base)
	}
	f, warnings, err := understand(layer, path, base, after, mode)
	if err != nil {
		return warnings, err
	}
	if _, err = (Layers{files: []file{f}}).Config(); err == nil {
		return warnings, nil
	}
	old, _, wrong := understand(layer, path, base, before, mode)
	if wrong == nil {
		_, wrong = Layers{files: []file{old}}.Config()
	}
	if wrong != nil {
		err = nil // one thing after the other is fixed
	}
	return warnings, err
}

// contents of a file and its mode; nothing where there is none.
func contents(path string) ([]byte, fs.FileMode, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0o600, nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > agentfile.MaxSettings) {
		err = fmt.Errorf("want a file of at most %d bytes", agentfile.MaxSettings)
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("configuration %s: %w", path, err)
	}
	return b, info.Mode().Perm(), nil
}

// exchange puts a new text in the place of an old one, unless that is not there any more.
func exchange(path string, before, after []byte, mode fs.FileMode) (done bool, err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, fmt.Errorf("make the folder: %w", err)
	}
	f, err := os.CreateTemp(dir, ".config-*")
	if err != nil {
		return false, fmt.Errorf("configuration %s: %w", path, err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // it has moved where all went well
	_, err = f.Write(after)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return false, fmt.Errorf("configuration %s: %w", path, err)
	}
	now, _, err := contents(path)
	if err != nil || !bytes.Equal(now, before) {
		return false, err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return false, fmt.Errorf("configuration %s: %w", path, err)
	}
	return true, nil
}
