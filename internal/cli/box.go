package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/service/all"
	"github.com/inspan/inspan/pkg/events"
)

// throwaway is a sandbox of this machine on an empty workspace.
type throwaway struct {
	sandbox.Sandbox
	root string
}

// gone ends it and removes its workspace.
func (b throwaway) gone() {
	_ = b.Destroy(context.Background()) // what it held was made by this command
	_ = os.RemoveAll(b.root)
}

// emptyBox opens a sandbox of a mode as the toolrunner would, without network.
func (a *app) emptyBox(ctx context.Context, mode string) (throwaway, error) {
	if mode == string(sandbox.Auto) {
		mode = ""
	}
	return a.openBox(ctx, a.set("INSPAN_SANDBOX", "auto"), events.Sandbox{Mode: mode})
}

// openBox opens a sandbox as the toolrunner would; own is what the agent wants.
func (a *app) openBox(ctx context.Context, station string, own events.Sandbox) (throwaway, error) {
	cfg, err := a.config()
	if err != nil {
		return throwaway{}, err
	}
	root, err := os.MkdirTemp("", "inspan-tools-")
	if err != nil {
		return throwaway{}, fmt.Errorf("make a workspace: %w", err)
	}
	cfg.Workspace, cfg.Sandbox = root, station
	cfg.SandboxReaches = true // the commands are those of whoever starts this program
	boxes, _, err := all.Boxes(ctx, cfg)
	if err == nil {
		var box sandbox.Sandbox
		if box, err = boxes.OpenAs(ctx, "tools", "workspace", own); err == nil {
			return throwaway{box, root}, nil
		}
	}
	_ = os.RemoveAll(root) // it is empty
	return throwaway{}, err
}
