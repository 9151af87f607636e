package tool

import (
	"context"
	"encoding/json"
)

// Previewer is implemented by tools that can show what a call would change, for the person who decides about it.
type Previewer interface {
	// Preview returns a unified diff of what a call with these arguments would change; empty where it changes nothing.
	// It changes nothing itself, starts no program, and sees the workspace through read alone, whose errors it returns:
	// a file that is missing is fs.ErrNotExist. Its error is why there is no preview, for people.
	Preview(ctx context.Context, input json.RawMessage, read func(path string) ([]byte, error)) (diff string, err error)
}
