package artifacts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/run"
)

// putCommand is inspan artifacts put.
type putCommand struct {
	App   *app.App
	flags putFlags
}

func putCmd(a *app.App) *cobra.Command {
	c := &putCommand{App: a}
	cmd := &cobra.Command{
		Use: "put RUN FILE", Short: "Put an input file into the workspace of a run, or of its session",
		Long: `Copies a file into the workspace that a run works in, where its next call finds it; of a run in a session that is the
directory of the session, so that later runs find it, too. The workspace must be on this machine, and stay there: where workspaces
follow their runs (INSPAN_WORKSPACE_MODE=follow) this is refused. The file appears whole or not at all, and none is written over
without --force. A file whose path matches the agent's patterns is kept as an artifact after the next command, as if the agent had
made it.`,
		Example: "  inspan artifacts put run-k3v9x2m1qa prices.csv\n  inspan artifacts put run-k3v9x2m1qa ~/logs/today.log --as input/today.log --force --json",
		Args:    app.Args(2),
		RunE:    a.Connected(c.run),
	}
	cmd.Flags().StringVar(&c.flags.as, "as", "", "path of the file in the workspace; its own name if not given")
	cmd.Flags().BoolVar(&c.flags.force, "force", false, "write over a file that is there")
	cmd.Flags().StringVar(&c.flags.workspace, "workspace", a.Lookup("INSPAN_WORKSPACE", "./workspace"),
		"root of the workspaces on this machine (INSPAN_WORKSPACE)")
	return cmd
}

func (a *putCommand) run(ctx context.Context, c *client.Client, argv []string) error {
	return putArtifact(ctx, a.App, c, a.flags, argv[0], argv[1])
}

// putFlags are the flags of inspan artifacts put.
type putFlags struct {
	as        string
	workspace string
	force     bool
}

func putArtifact(ctx context.Context, a *app.App, c *client.Client, f putFlags, runID, file string) error {
	s, err := c.State(ctx, runID)
	if err != nil {
		return err
	}
	name, err := inputName(cmp.Or(f.as, filepath.Base(file)))
	if err != nil {
		return err
	}
	root, err := openWorkspace(f.workspace, s)
	if err != nil {
		return err
	}
	defer root.Close()
	data, err := readInput(file)
	if err != nil {
		return err
	}
	if err := putFile(root, name, data, f.force, "--as names another path"); err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	if a.JSON {
		return a.PrintJSON(map[string]any{"run": runID, "workspace": s.Created.Workspace, "path": name, "size": len(data),
			"sha256": hex.EncodeToString(sum[:])})
	}
	fmt.Fprintf(a.Out, "%s is in %s  %s\n", view.Clip(name, 400), s.Created.Workspace, view.Bytes(int64(len(data))))
	return nil
}

// inputName is a path that an input may have in a workspace.
func inputName(name string) (string, error) {
	name = path.Clean(filepath.ToSlash(name))
	if why := artifact.CheckPath(name); why != "" {
		return "", app.Usage("--as %s: %s", artifact.Shown(name), why)
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.EqualFold(part, ".git") || strings.EqualFold(part, ".harness") {
			return "", app.Usage("--as %s: what is in %s is not for inputs, name another path", artifact.Shown(name), part)
		}
	}
	if capture.Own(name) {
		return "", app.Usage("--as %s: the harness writes that file itself, name another path", artifact.Shown(name))
	}
	return name, nil
}

// openWorkspace opens the workspace of a run that can still make use of it.
func openWorkspace(workspaces string, s run.State) (*os.Root, error) {
	if s.Created == nil || s.Status.Ended() && !strings.HasPrefix(s.Created.Workspace, "session/") {
		return nil, fmt.Errorf("run %s has ended, and no other will work in its workspace: start runs that share one with --session", s.HarnessID)
	}
	if _, err := os.Lstat(filepath.Join(workspaces, ".trees")); err == nil {
		return nil, fmt.Errorf("the workspaces of %s follow their runs: what is written here would not go with them",
			workspaces)
	}
	all, err := os.OpenRoot(workspaces)
	if err != nil {
		return nil, fmt.Errorf("open the root of the workspaces: %w (--workspace names it, on the machine of the toolrunner)", err)
	}
	defer all.Close()
	root, err := all.OpenRoot(s.Created.Workspace)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("workspace %s is not in %s: --workspace names the root on the machine of the toolrunner; it is made with the first call that touches it", s.Created.Workspace, workspaces)
	}
	if err != nil {
		return nil, fmt.Errorf("open workspace %s: %w", s.Created.Workspace, err)
	}
	return root, nil
}

// readInput reads a file of the operator's, of at most what may be stored.
func readInput(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file: name one, or put what it holds into one first", artifact.Shown(file))
	}
	if info.Size() > artifact.MaxTransfer {
		return nil, fmt.Errorf("%s has %s, at most %s can be put: split it, or put it into the workspace on the machine of the toolrunner", artifact.Shown(file), view.Bytes(info.Size()), view.Bytes(artifact.MaxTransfer))
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, artifact.MaxTransfer+1))
	if err == nil && len(data) > artifact.MaxTransfer {
		err = fmt.Errorf("%s grew while it was read", artifact.Shown(file))
	}
	return data, err
}
