package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/inspan/inspan/internal/git"
)

// Snapshots opens keepers of working trees.
type Snapshots interface {
	// Keep opens the keeper of a tree. store is a directory of its own, outside of the tree, that can be made again.
	Keep(ctx context.Context, tree, store string) (Keeper, error)
}

// Keeper takes snapshots of one tree and restores them. It is used by one goroutine at a time.
type Keeper interface {
	// Snapshot keeps the tree as it is, as its difference to a parent. A tree that changes meanwhile may be
	// ErrChanging.
	Snapshot(ctx context.Context, parent string) (Shot, error)
	// Restore makes the tree what it was, from all packs of the snapshot's chain, the oldest first: whole or not at
	// all. Packs that are not what they were are ErrDamaged.
	Restore(ctx context.Context, id string, packs ...io.Reader) error
}

// Shot is a snapshot that was taken.
type Shot struct {
	// ID names the content; equal trees have equal ids. Parent is what the pack builds on, empty for a whole one.
	ID, Parent string
	// Pack is nil where nothing changed since the parent. Whoever gets it closes it.
	Pack  io.ReadCloser
	Files int
	Bytes int64
}

// notesDir is where toolrunners write what people may want to read, with each call. It can be made again and is not
// kept: a call that changes nothing else costs nothing.
const notesDir = ".harness"

// Git makes snapshots with the git program.
type Git struct{ Program *git.Git }

var _ Snapshots = Git{}

// Keep implements Snapshots.
func (g Git) Keep(_ context.Context, tree, store string) (Keeper, error) {
	k, err := g.Program.Keep(git.KeepConfig{Tree: tree, Store: store, Skip: []string{notesDir}})
	return gitKeeper{k}, err
}

type gitKeeper struct{ k *git.Keeper }

func (g gitKeeper) Snapshot(ctx context.Context, parent string) (Shot, error) {
	s, p, err := g.k.Snapshot(ctx, parent)
	if errors.Is(err, git.ErrUnderway) {
		return Shot{}, fmt.Errorf("%w: %w", ErrChanging, err)
	}
	if err != nil {
		return Shot{}, err
	}
	shot := Shot{ID: s.ID, Parent: s.Parent, Files: s.Files, Bytes: s.Bytes}
	if p != nil {
		shot.Pack = p
	}
	return shot, nil
}

func (g gitKeeper) Restore(ctx context.Context, id string, packs ...io.Reader) error {
	err := g.k.Restore(ctx, id, packs...)
	if errors.Is(err, git.ErrDamaged) || errors.Is(err, git.ErrTooLarge) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}
