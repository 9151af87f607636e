package gitwork

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/pkg/tool"
)

// What callers branch on.
var (
	// ErrMoved: the branch is not at the commit that was to be pushed.
	ErrMoved = git.ErrMoved
	// ErrRefused: a remote that may not be reached.
	ErrRefused = errors.New("not reachable")
	// ErrStore: the object store of the station.
	ErrStore = errors.New("the object store is unavailable")
	// ErrBusy: somebody else is at work in the tree.
	ErrBusy = errors.New("another git operation is in progress in this workspace")
)

var errNone = fmt.Errorf("the workspace has no repository: %w (call git_prepare first)", git.ErrNotRepository)

// maxAnswer is the most bytes of a result: all of it must be shown, or it is no JSON any more.
const maxAnswer = 12 << 10

// answer makes JSON of a result, and a *tool.Error of an error.
func answer(ctx context.Context, out any, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, classed(ctx, err)
	}
	for {
		b, err := json.Marshal(out)
		if err != nil {
			return nil, err
		}
		s, ok := out.(interface{ shorten() bool })
		if len(b) <= maxAnswer || !ok || !s.shorten() {
			return b, nil
		}
	}
}

// classed says whether trying again can help.
func classed(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*tool.Error](err); ok && e.Class != "" {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	class, hint := tool.Permanent, ""
	switch {
	case errors.Is(err, git.ErrProtocol), errors.Is(err, ErrRefused), errors.Is(err, git.ErrHostile),
		errors.Is(err, git.ErrHostKey):
		class = tool.Denied
	case errors.Is(err, git.ErrUnreachable), errors.Is(err, git.ErrUnderway), errors.Is(err, ErrBusy),
		errors.Is(err, ErrStore):
		class = tool.Transient
	case errors.Is(err, git.ErrName), errors.Is(err, git.ErrNotFound), errors.Is(err, ErrMoved),
		errors.Is(err, git.ErrNotEmpty), errors.Is(err, git.ErrUnmerged):
		class = tool.Invalid
	}
	if e, ok := errors.AsType[*git.Error](err); ok {
		hint = e.Hint
	}
	return tool.Fail(class, hint, err)
}
