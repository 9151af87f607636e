package agents

import (
	"context"
	"fmt"
	"os"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/service/all"
	"github.com/inspan/inspan/pkg/events"
)

// tempSandbox is a sandbox of this machine on an empty workspace.
type tempSandbox struct {
	sandbox.Sandbox
	root string
}

// remove ends it and removes its workspace.
func (b tempSandbox) remove() {
	_ = b.Destroy(context.Background()) // what it held was made by this command
	_ = os.RemoveAll(b.root)
}

// OpenSandbox opens the sandbox of an agent on an empty workspace, as the toolrunner would; station is the mode of
// agents that name none. remove ends it.
func OpenSandbox(ctx context.Context, a *app.App, station string, own events.Sandbox) (sb sandbox.Sandbox,
	remove func(), err error) {
	temp, err := openSandbox(ctx, a, station, own)
	if err != nil {
		return nil, nil, err
	}
	return temp.Sandbox, temp.remove, nil
}

// openDefault opens a sandbox of a mode as the toolrunner would, without network.
func openDefault(ctx context.Context, a *app.App, mode string) (tempSandbox, error) {
	if mode == string(sandbox.Auto) {
		mode = ""
	}
	return openSandbox(ctx, a, a.Lookup("INSPAN_SANDBOX", "auto"), events.Sandbox{Mode: mode})
}

// openSandbox opens a sandbox as the toolrunner would; own is what the agent wants.
func openSandbox(ctx context.Context, a *app.App, station string, own events.Sandbox) (tempSandbox, error) {
	cfg, err := a.Config()
	if err != nil {
		return tempSandbox{}, err
	}
	root, err := os.MkdirTemp("", "inspan-tools-")
	if err != nil {
		return tempSandbox{}, fmt.Errorf("make a workspace: %w", err)
	}
	cfg.Workspace, cfg.Sandbox = root, station
	cfg.SandboxReaches = true // the commands are those of whoever starts this program
	sandboxes, _, err := all.Sandboxes(ctx, cfg)
	if err == nil {
		var sb sandbox.Sandbox
		if sb, err = sandboxes.OpenAs(ctx, "tools", "workspace", own); err == nil {
			return tempSandbox{sb, root}, nil
		}
	}
	_ = os.RemoveAll(root) // it is empty
	return tempSandbox{}, err
}
