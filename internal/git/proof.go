package git

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // it is what names the objects of most repositories
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"
	"strings"
)

// Holds reports whether a commit is another one, or among those before it. Unlike IsAncestor it believes nothing of the
// repository: the commits on the way are read, and each must have the content that its id was made of. Both are whole
// ids.
func (h *history) Holds(ctx context.Context, tip, commit string) (bool, error) {
	for _, id := range []string{tip, commit} {
		if !fullID.MatchString(id) {
			return false, fmt.Errorf("commit %q: want a full id: %w", short(id), ErrName)
		}
	}
	if in, err := h.IsAncestor(ctx, commit, tip); err != nil || !in || tip == commit {
		return in, err
	}
	way, err := h.run(ctx, "rev-list", "--ancestry-path", commit+".."+tip)
	if err != nil {
		return false, err
	}
	var all bytes.Buffer
	if _, err := h.do(ctx, call{args: []string{"cat-file", "--batch"}, stdin: strings.NewReader(way),
		stdout: &all}); err != nil {
		return false, err
	}
	parents, err := h.proven(all.Bytes())
	if err != nil {
		return false, err
	}
	seen := map[string]bool{}
	for next := []string{tip}; len(next) > 0; {
		id := next[len(next)-1]
		next = next[:len(next)-1]
		if id == commit {
			return true, nil
		}
		if !seen[id] {
			seen[id] = true
			next = append(next, parents[id]...)
		}
	}
	return false, nil
}

// proven reads what cat-file --batch printed of commits, and gives the parents of each. One whose content is not that
// of its id is ErrHostile.
func (l *layout) proven(out []byte) (map[string][]string, error) {
	parents := map[string][]string{}
	err := l.objects(out, "commit", func(id string, content []byte) error {
		top, _, _ := strings.Cut(string(content), "\n\n")
		for line := range strings.SplitSeq(top, "\n") {
			if p, ok := strings.CutPrefix(line, "parent "); ok {
				parents[id] = append(parents[id], p)
			}
		}
		return nil
	})
	return parents, err
}

// objects reads what cat-file --batch printed of objects of one kind. One whose content is not that of its id is
// ErrHostile.
func (l *layout) objects(out []byte, kind string, each func(id string, content []byte) error) error {
	for len(out) > 0 {
		first, rest, _ := bytes.Cut(out, []byte("\n"))
		head := strings.Fields(string(first))
		if len(head) != 3 || head[1] != kind {
			return fmt.Errorf("%s %q cannot be read: %w", kind, short(string(first)), ErrHostile)
		}
		size, err := strconv.Atoi(head[2])
		if err != nil || size < 0 || size >= len(rest) {
			return fmt.Errorf("%s %.12s is truncated: %w", kind, head[0], ErrHostile)
		}
		content := rest[:size]
		if l.idOf(kind, content) != head[0] {
			return fmt.Errorf("the content of %s %.12s does not match its id: %w (clone it again)", kind, head[0], ErrHostile)
		}
		if err := each(head[0], content); err != nil {
			return err
		}
		out = rest[size+1:]
	}
	return nil
}

// idOf is the id of an object of a kind and a content.
func (l *layout) idOf(kind string, content []byte) string {
	var h hash.Hash = sha1.New() //nolint:gosec // see above
	if l.format == "sha256" {
		h = sha256.New()
	}
	fmt.Fprintf(h, "%s %d\x00", kind, len(content))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}
