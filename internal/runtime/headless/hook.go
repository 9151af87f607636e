package headless

import (
	"context"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/runtime"
)

const (
	// startWait bounds how long the program may take to confirm the hook.
	startWait = 3 * time.Minute
	// registration is the id of the request that registers the hook.
	registration = "initialize"
)

// everyCall registers a hook before each tool call. By itself the program makes many calls without a question: it reads
// files, and it runs commands that it takes for harmless.
var everyCall = map[string]any{"subtype": "initialize",
	"hooks": map[string]any{"PreToolUse": []any{map[string]any{"matcher": nil, "hookCallbackIds": []string{"call"}}}}}

// askFirst is the answer to the hook: the program asks for permission, whatever its own rules or the hooks of a
// repository say. The decision itself is no answer to the hook, which has a time limit that a gate may exceed.
var askFirst = map[string]any{"hookSpecificOutput": map[string]string{"hookEventName": "PreToolUse",
	"permissionDecision": "ask", "permissionDecisionReason": "the station decides on each call"}}

// response is the answer of the program to a request.
type response struct {
	Subtype string `json:"subtype"`
	ID      string `json:"request_id"`
	Error   string `json:"error"`
}

// register registers the hook and returns once the program has confirmed it: before that it is given no prompt.
func (c *claude) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startWait,
		fmt.Errorf("%w: no answer to the hook within %s", runtime.ErrProtocol, startWait))
	defer cancel()
	// An error of it is that the program has ended, or that ctx has.
	_ = c.program.Tell(ctx, map[string]any{"type": "control_request", "request_id": registration, "request": everyCall})
	select {
	case err := <-c.ready:
		return err
	case r := <-c.results:
		return c.early(r)
	case <-c.life.Done():
		select {
		case r := <-c.results: // which it gave before it ended
			return c.early(r)
		default:
			return context.Cause(c.life)
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// early explains a result before any prompt.
func (c *claude) early(r result) error {
	if err := c.lost(r); err != nil {
		return err
	}
	return fmt.Errorf("%w: a result before any prompt: %s", runtime.ErrProtocol, c.reply(r).Reason)
}

// registered takes the answer to the request that registers the hook; others are not waited for.
func (c *claude) registered(r response) {
	if r.ID != registration {
		return
	}
	var err error
	if r.Subtype != "success" {
		err = fmt.Errorf("%w: the hook before each call is not possible: %.256q", runtime.ErrProtocol, r.Error)
	}
	select {
	case c.ready <- err:
	default: // a second answer
	}
}
