package artifacts

import (
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

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// getCommand is inspan artifacts get.
type getCommand struct {
	App   *app.App
	flags fetchFlags
}

func getCmd(a *app.App) *cobra.Command {
	c := &getCommand{App: a}
	cmd := &cobra.Command{
		Use: "get RUN [ARTIFACT...]", Short: "Get artifacts of a run: those named by id, path or name, else all",
		Long: `Writes artifacts into a folder, by their paths in the workspace, and outputs of calls below logs/. The digest of each is
checked before anything is written. Nothing is written outside of the folder, and no file is written over without --force.
An artifact that is kept in the workspace alone is read from there, where this machine has it.`,
		Example: "  inspan artifacts get run-k3v9x2m1qa --to out\n  inspan artifacts get run-k3v9x2m1qa report.md --stdout\n  inspan artifacts get run-k3v9x2m1qa art-1a2b3c4d5e6f --force --json",
		Args:    cobra.MinimumNArgs(1),
		RunE:    a.Connected(c.run),
	}
	cmd.Flags().StringVar(&c.flags.to, "to", ".", "folder to write into; it is made")
	cmd.Flags().BoolVar(&c.flags.stdout, "stdout", false, "write the one artifact to standard output")
	cmd.Flags().BoolVar(&c.flags.force, "force", false, "write over files that are there")
	cmd.Flags().StringVar(&c.flags.workspace, "workspace", a.Lookup("INSPAN_WORKSPACE", "./workspace"),
		"root of the workspaces on this machine, for artifacts that are kept there alone (INSPAN_WORKSPACE)")
	return cmd
}

func (a *getCommand) run(ctx context.Context, c *client.Client, argv []string) error {
	if a.flags.stdout && (len(argv) != 2 || a.App.JSON) {
		return app.Usage("--stdout wants one artifact, and no --json")
	}
	return getArtifacts(ctx, a.App, c, a.flags, argv[0], argv[1:])
}

// fetchFlags are the flags of inspan artifacts get.
type fetchFlags struct {
	to        string
	stdout    bool
	force     bool
	workspace string
}

// writtenFile is a line of what was written.
type writtenFile struct {
	ID   string `json:"id"`
	File string `json:"file"`
	Size int64  `json:"size"`
}

func getArtifacts(ctx context.Context, a *app.App, c *client.Client, f fetchFlags, runID string, named []string) error {
	if len(named) == 0 {
		all, err := c.Artifacts().List(ctx, runID)
		if err != nil {
			return err
		}
		for _, one := range all {
			named = append(named, one.ID)
		}
	}
	if f.stdout {
		_, data, err := readArtifact(ctx, a, c, f, runID, named[0])
		if err == nil {
			_, err = a.Out.Write(data)
		}
		return err
	}
	if err := os.MkdirAll(f.to, 0o755); err != nil {
		return fmt.Errorf("make the folder: %w", err)
	}
	root, err := os.OpenRoot(f.to)
	if err != nil {
		return fmt.Errorf("open the folder: %w", err)
	}
	defer root.Close()
	written := []writtenFile{}
	var errs []error
	var size int64
	for n, id := range named {
		one, data, err := readArtifact(ctx, a, c, f, runID, id)
		file := fileOf(one.Artifact)
		if err == nil {
			err = putFile(root, file, data, f.force, "--to names another folder")
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		written, size = append(written, writtenFile{one.ID, filepath.Join(f.to, filepath.FromSlash(file)), one.Size}),
			size+one.Size
		if a.Term.TTY && len(named) > 1 {
			fmt.Fprintf(a.Err, "\r%d of %d, %s", n+1, len(named), view.Bytes(size))
		}
	}
	if a.Term.TTY && len(named) > 1 {
		fmt.Fprintln(a.Err)
	}
	if a.JSON {
		return errors.Join(append(errs, a.PrintJSON(written))...)
	}
	for _, w := range written {
		fmt.Fprintf(a.Out, "%s  %s\n", view.Clip(w.File, 400), view.Bytes(w.Size))
	}
	if len(named) == 0 {
		fmt.Fprintln(a.Out, "The run has made no artifacts.")
	}
	return errors.Join(errs...)
}

// readArtifact reads one artifact, from the workspace where it is kept there alone.
func readArtifact(ctx context.Context, a *app.App, c *client.Client, f fetchFlags,
	runID, id string) (client.Artifact, []byte, error) {
	one, r, err := c.Artifacts().Open(ctx, runID, id)
	var there *client.ElsewhereError
	if errors.As(err, &there) {
		data, wsErr := fromWorkspace(f.workspace, one)
		if wsErr != nil {
			return one, nil, fmt.Errorf("%w; --workspace names that root: %w", err, wsErr)
		}
		return one, data, nil
	}
	if err != nil {
		return one, nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return one, data, err
}

// fromWorkspace reads a file of a run's workspace on this machine, and only if it is still what it was.
func fromWorkspace(workspaces string, one client.Artifact) ([]byte, error) {
	root, err := os.OpenRoot(workspaces)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	name := path.Join(one.Workspace, one.Path)
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() || info.Size() != one.Size {
		return nil, errors.Join(errors.New("the file is not there any more, or is another one now"), err)
	}
	data, err := root.ReadFile(name)
	if sum := sha256.Sum256(data); err == nil && hex.EncodeToString(sum[:]) != one.SHA256 {
		err = errors.New("the file was changed since")
	}
	return data, err
}

// fileOf is where an artifact is written, relative to the folder.
func fileOf(one events.Artifact) string {
	if one.Path != "" {
		return one.Path
	}
	return "logs/" + path.Base(one.Key)
}

// putFile writes a file below a folder: whole or not at all, never outside, and over another only with force. elsewhere
// is the flag that names another place.
func putFile(root *os.Root, file string, data []byte, force bool, elsewhere string) error {
	if why := artifact.CheckPath(file); why != "" {
		return fmt.Errorf("%s is not written: %s", artifact.Shown(file), why)
	}
	_, err := root.Lstat(file)
	switch {
	case err == nil && !force:
		return fmt.Errorf("%s is there already: --force writes over it, %s", file, elsewhere)
	case err == nil || errors.Is(err, fs.ErrNotExist):
		err = capture.Write(root, file, data, true)
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err // which of its files it was says nothing
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", artifact.Shown(file), err)
	}
	return nil
}
