package git

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Limits of what Files reads.
const (
	// MaxFiles is the most entries of all directories of a commit.
	MaxFiles = 200_000
	// maxTrees and MaxFileBytes are the most bytes of its directories, and of the files that are asked for.
	maxTrees     = 64 << 20
	MaxFileBytes = 64 << 20
	maxTreeDepth = 100
)

// File is a file of a commit.
type File struct {
	Path string
	// Mode is git's: 100644, 100755, or 120000 for a link, whose content is where it leads.
	Mode    string
	Content []byte
}

// Files gives the files of a commit whose paths are wanted, without those of submodules. It believes nothing of the
// repository: each directory and file must have the content that its id was made of, from the id of the commit on.
// What is given to take is its own only until take returns.
func (h *history) Files(ctx context.Context, commit string, want func(path string) bool, take func(File) error) error {
	if !fullID.MatchString(commit) {
		return fmt.Errorf("commit %q: want a full id: %w", short(commit), ErrName)
	}
	w := fileWalk{h: h, want: want, files: map[string][]File{}}
	var root string
	if err := w.read(ctx, "commit", []string{commit}, func(_ string, content []byte) error {
		line, _, _ := strings.Cut(string(content), "\n")
		root, _ = strings.CutPrefix(line, "tree ")
		if !fullID.MatchString(root) {
			return fmt.Errorf("commit %.12s names no directory: %w", commit, ErrHostile)
		}
		return nil
	}); err != nil {
		return err
	}
	level := map[string][]string{root: {""}}
	for depth := 0; len(level) > 0; depth++ {
		if depth > maxTreeDepth {
			return fmt.Errorf("commit %.12s has directories deeper than %d: %w", commit, maxTreeDepth, ErrTooLarge)
		}
		next, err := w.level(ctx, level)
		if err != nil {
			return err
		}
		level = next
	}
	return w.read(ctx, "blob", slices.Collect(maps.Keys(w.files)), func(id string, content []byte) error {
		for _, f := range w.files[id] {
			f.Content = content
			if err := take(f); err != nil {
				return err
			}
		}
		return nil
	})
}

// fileWalk is one walk through the directories of a commit.
type fileWalk struct {
	h     *history
	want  func(path string) bool
	files map[string][]File // by the id of their content
	seen  int
	bytes int
}

// read reads objects of one kind, each once.
func (w *fileWalk) read(ctx context.Context, kind string, ids []string,
	each func(id string, content []byte) error) error {
	if len(ids) == 0 {
		return nil
	}
	var out bytes.Buffer
	if _, err := w.h.do(ctx, call{args: []string{"cat-file", "--batch"},
		stdin:  strings.NewReader(strings.Join(ids, "\n") + "\n"),
		stdout: &out, limit: MaxFileBytes}); err != nil {
		return err
	}
	found := 0
	err := w.h.objects(out.Bytes(), kind, func(id string, content []byte) error {
		found++
		return each(id, content)
	})
	if err == nil && found != len(ids) {
		err = fmt.Errorf("%d of %d objects of kind %s cannot be read: %w", len(ids)-found, len(ids), kind, ErrHostile)
	}
	return err
}

// level reads directories, by the id of their content, and returns those in them.
func (w *fileWalk) level(ctx context.Context, dirs map[string][]string) (map[string][]string, error) {
	next := map[string][]string{}
	err := w.read(ctx, "tree", slices.Collect(maps.Keys(dirs)), func(id string, content []byte) error {
		if w.bytes += len(content); w.bytes > maxTrees {
			return fmt.Errorf("its directories have more than %d bytes: %w", maxTrees, ErrTooLarge)
		}
		return w.tree(content, dirs[id], next)
	})
	return next, err
}

// tree reads the entries of a directory that is at some paths.
func (w *fileWalk) tree(content []byte, at []string, next map[string][]string) error {
	size := len(w.h.idOf("tree", nil)) / 2
	for len(content) > 0 {
		head, rest, ok := bytes.Cut(content, []byte{0})
		mode, name, spaced := strings.Cut(string(head), " ")
		if !ok || !spaced || len(rest) < size || name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
			return fmt.Errorf("a directory has the entry %q: %w", short(string(head)), ErrHostile)
		}
		id := hex.EncodeToString(rest[:size])
		content = rest[size:]
		for _, dir := range at {
			if w.seen++; w.seen > MaxFiles {
				return fmt.Errorf("its directories have more than %d entries: %w", MaxFiles, ErrTooLarge)
			}
			p := path.Join(dir, name)
			switch mode {
			case "40000":
				next[id] = append(next[id], p)
			case "100644", "100664", "100755", "120000":
				if w.want(p) {
					w.files[id] = append(w.files[id], File{Path: p, Mode: mode})
				}
			}
		}
	}
	return nil
}
