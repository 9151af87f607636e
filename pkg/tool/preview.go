package tool

import (
	"context"
	"encoding/json"
)

// Previewer is implemented by tools that can show what a call would change, for the person who decides about it.
type Previewer interface {
	// Preview returns a unified diff of what a call with these arguments would change; empty where it changes nothing.
	// It changes nothing itself and sees the workspace through view alone. Its error is why there is no preview, for
	// people.
	Preview(ctx context.Context, input json.RawMessage, view View) (diff string, err error)
}

// View is what a preview sees of a workspace.
type View struct {
	// Read returns a file of the workspace; one that is missing is fs.ErrNotExist.
	Read func(path string) ([]byte, error)
	// Git shows what git work of a name would change (Git.Do), and is nil where the toolrunner does none.
	Git func(ctx context.Context, name string, input json.RawMessage) (diff string, err error)
}
