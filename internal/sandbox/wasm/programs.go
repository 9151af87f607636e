package wasm

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/sandbox"
)

// suffix ends the names of program files.
const suffix = ".wasm"

// names lists the programs, in order.
func (b *Backend) names() ([]string, error) {
	seen := make(map[string]bool)
	for _, dir := range b.cfg.Dirs {
		list, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("directory of wasm programs: %w", err)
		}
		for _, entry := range list {
			if name, ok := strings.CutSuffix(entry.Name(), suffix); ok && name != "" {
				seen[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// find returns the file of a program. The directories are what a command knows as /bin and /usr/bin.
func (b *Backend) find(name string) (string, error) {
	base := name
	for _, dir := range []string{"/bin/", "/usr/bin/"} {
		if rest, ok := strings.CutPrefix(name, dir); ok {
			base = rest
		}
	}
	if base != "" && base != "." && base != ".." && !strings.ContainsAny(base, "/\x00") {
		for _, dir := range b.cfg.Dirs {
			file := filepath.Join(dir, base+suffix)
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
				return file, nil
			}
		}
	}
	names, err := b.names()
	if err != nil {
		return "", fmt.Errorf("exec %q: %w: %w", name, sandbox.ErrNotStarted, err)
	}
	return "", fmt.Errorf("exec %q: %w: this sandbox runs wasm programs only: %s", name, sandbox.ErrNotStarted,
		strings.Join(names, " "))
}
