package client

import (
	"context"
	"errors"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Member is a run of a tree of child runs.
type Member struct {
	// State as the run's log has it. Its Sequence is 0 for a child that has been spawned and has no log here.
	State run.State
	// Parent is the run that Child belongs to, and Child is what the parent knows of it; nil for the first member.
	Parent string
	Child  *run.Child
	// Depth below the first member.
	Depth int
}

// ID of the run.
func (m Member) ID() string {
	if m.Child != nil {
		return m.Child.ID
	}
	return m.State.HarnessID
}

// Used is what the run spent itself, without its children: as its own log says, else as its parent knows.
func (m Member) Used() events.Use {
	if m.State.Sequence == 0 && m.Child != nil {
		return m.Child.Use
	}
	return m.State.Own()
}

// Tree returns a run and all runs below it: each is followed by its children, in the order in which they were spawned.
// What it says is from the logs of the runs, so it is up to date; a child that a parent spawned this moment may have no
// log yet. ErrNotFound where there is no such run. Root gives the run at the top of a tree.
func (rs Runs) Tree(ctx context.Context, runID string) ([]Member, error) {
	s, err := rs.c.State(ctx, runID)
	if err != nil {
		return nil, err
	}
	return rs.below(ctx, nil, Member{State: s})
}

// Root returns the id of the run at the top of the tree that a run belongs to.
func (rs Runs) Root(ctx context.Context, runID string) (string, error) {
	s, err := rs.c.State(ctx, runID)
	if err != nil {
		return "", err
	}
	_, root := s.Depth()
	return root, nil
}

func (rs Runs) below(ctx context.Context, all []Member, m Member) ([]Member, error) {
	all = append(all, m)
	for _, c := range m.State.Children {
		if c.ID == "" { // no run was made
			continue
		}
		next := Member{Parent: m.State.HarnessID, Child: c, Depth: m.Depth + 1}
		s, err := rs.c.State(ctx, c.ID)
		switch {
		case errors.Is(err, ErrNotFound): // it has not begun, or its log is elsewhere
		case err != nil:
			return nil, err
		case !c.Is(m.State.HarnessID, s): // a fork names the children of the run that it was forked from
			continue
		default:
			next.State = s
		}
		if all, err = rs.below(ctx, all, next); err != nil {
			return nil, err
		}
	}
	return all, nil
}
