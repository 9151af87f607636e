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
	for len(out) > 0 {
		first, rest, _ := bytes.Cut(out, []byte("\n"))
		head := strings.Fields(string(first))
		if len(head) != 3 || head[1] != "commit" {
			return nil, fmt.Errorf("commit %q cannot be read: %w", short(string(first)), ErrHostile)
		}
		size, err := strconv.Atoi(head[2])
		if err != nil || size < 0 || size >= len(rest) {
			return nil, fmt.Errorf("commit %.12s is truncated: %w", head[0], ErrHostile)
		}
		content := rest[:size]
		if l.idOf("commit", content) != head[0] {
			return nil, fmt.Errorf("the content of commit %.12s does not match its id: %w (clone it again)", head[0], ErrHostile)
		}
		top, _, _ := strings.Cut(string(content), "\n\n")
		for line := range strings.SplitSeq(top, "\n") {
			if p, ok := strings.CutPrefix(line, "parent "); ok {
				parents[head[0]] = append(parents[head[0]], p)
			}
		}
		out = rest[size+1:]
	}
	return parents, nil
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
