package tool

import (
	"context"
	"encoding/json"
)

// Git does git work in the workspace of a run, by the toolrunner itself and not inside of the sandbox. Both take the
// name of a built-in tool, such as git_push, and its arguments, and answer with its result, a JSON object;
// docs/git-tools.md has all of them. Errors are an *Error, or that of a context that has ended.
type Git interface {
	// Do carries the work out.
	Do(ctx context.Context, name string, input json.RawMessage) (json.RawMessage, error)
	// Done reports whether an earlier attempt took effect, and if so with what result.
	Done(ctx context.Context, name string, input json.RawMessage) (bool, json.RawMessage, error)
}
