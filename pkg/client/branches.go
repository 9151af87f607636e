package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Branches are the git branches that are kept with the station.
type Branches struct{ c *Client }

// Branches returns the git branches that are kept with the station.
func (c *Client) Branches() Branches { return Branches{c} }

// List lists the git branches that are kept with the station: those of a scope, such as "session/demo", "workflow/w1"
// or "run/r1", or all where it is empty. They are sorted by scope and name.
func (bs Branches) List(ctx context.Context, scope string) ([]events.PublishedBranch, error) {
	prefix := events.BranchKeys
	if scope != "" {
		prefix = events.BranchKeysOf(scope)
	}
	kv := bs.c.st.KV(topology.TreeBucket)
	keys, err := kv.Keys(ctx, prefix)
	if err != nil {
		return nil, fmt.Errorf("branches of the station: %w", err)
	}
	out := []events.PublishedBranch{}
	for _, key := range keys {
		b, err := kv.Get(ctx, key)
		if errors.Is(err, kernel.ErrNotFound) {
			continue // it went meanwhile
		}
		var one events.PublishedBranch
		if err == nil {
			err = json.Unmarshal(b, &one)
		}
		if err != nil {
			return nil, fmt.Errorf("branches of the station: %s: %w", key, err)
		}
		out = append(out, one)
	}
	sort.Slice(out, func(i, j int) bool {
		return cmp.Or(cmp.Compare(out[i].Scope, out[j].Scope), cmp.Compare(out[i].Branch, out[j].Branch)) < 0
	})
	return out, nil
}

// ErrAtRemote means that a branch has nothing that its remote has not: it is to be fetched from there.
var ErrAtRemote = errors.New("all of it is at the remote")

// Write writes a branch as a git bundle, which "git fetch FILE BRANCH" reads; the digest of each part is checked. The
// errors are ErrNotFound, ErrDamaged and ErrAtRemote; what was written before one of them is of no use.
func (bs Branches) Write(ctx context.Context, scope, name string, w io.Writer) (events.PublishedBranch, error) {
	var one events.PublishedBranch
	b, err := bs.c.st.KV(topology.TreeBucket).Get(ctx, events.BranchKey(scope, name))
	if errors.Is(err, kernel.ErrNotFound) {
		return one, notFound("branch of "+scope, name)
	}
	if err == nil {
		err = json.Unmarshal(b, &one)
	}
	if err != nil {
		return one, fmt.Errorf("branch %s of %s: %w", name, scope, err)
	}
	if len(one.Parts) == 0 {
		return one, fmt.Errorf("branch %s of %s, at %s: %w", name, scope, one.Commit, ErrAtRemote)
	}
	for _, part := range one.Parts {
		data, err := bs.c.st.Blobs().Get(ctx, part)
		if errors.Is(err, kernel.ErrNotFound) {
			return one, fmt.Errorf("a part of branch %s of %s is not in the store of this station: %w", name, scope, ErrNotFound)
		}
		if err == nil {
			_, err = w.Write(data)
		}
		if err != nil {
			return one, fmt.Errorf("branch %s of %s: %w", name, scope, err)
		}
	}
	return one, nil
}
