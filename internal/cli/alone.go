package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
)

// openLocal opens the station in the local store; with work its services run until the client is closed. A command that only
// looks lets nothing go on.
func (a *app) openLocal(ctx context.Context, work bool) (*client.Client, error) {
	path := filepath.Join(a.folder, station.LocalFile)
	if _, err := os.Stat(path); !work && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no local store %s: inspan run --local makes one, INSPAN_STORE names another folder, and without --local a station over NATS is meant", path)
	}
	l := local{store: a.folder, sandbox: a.set("INSPAN_SANDBOX", "auto")}
	if work {
		l.agents, l.scripts, l.workspace = a.set("INSPAN_AGENTS", ""), a.set("INSPAN_SCRIPTS", ""), a.set("INSPAN_WORKSPACE", "")
		l.guess()
	}
	st, err := a.start(ctx, l, "", !work)
	if err != nil {
		return nil, err
	}
	return operator.Local(st.Local(), func() {
		if err := st.Close(context.WithoutCancel(ctx)); err != nil {
			fmt.Fprintf(a.err, "inspan: close the local store: %v\n", err)
		}
	}), nil
}

// groupOf is the group of a command, or of the one above it.
func groupOf(cmd *cobra.Command) string {
	for ; cmd != nil; cmd = cmd.Parent() {
		if cmd.GroupID != "" {
			return cmd.GroupID
		}
	}
	return ""
}
