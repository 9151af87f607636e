package serve

import (
	"context"
	"embed"
	"errors"
	"io/fs"

	"github.com/inspan/inspan/pkg/tool/sandbox"
)

// ErrNoWorkspace is what the sandbox of a served call answers: the workspace of the run is on another machine.
var ErrNoWorkspace = errors.New("a tool that is served over NATS has no workspace and no sandbox")

// noSandbox stands where a tool expects its sandbox.
type noSandbox struct{}

var _ sandbox.Sandbox = noSandbox{}

func (noSandbox) ID() string         { return "" }
func (noSandbox) Mode() sandbox.Mode { return "" }
func (noSandbox) Workspace() string  { return "" }
func (noSandbox) Exec(context.Context, sandbox.Cmd) (sandbox.Exit, error) {
	return sandbox.Exit{}, ErrNoWorkspace
}
func (noSandbox) Start(context.Context, sandbox.Cmd) (sandbox.Process, error) {
	return nil, ErrNoWorkspace
}
func (noSandbox) Processes(context.Context) ([]sandbox.ProcessInfo, error) {
	return nil, ErrNoWorkspace
}
func (noSandbox) Kill(context.Context, int) error  { return ErrNoWorkspace }
func (noSandbox) ReadFile(string) ([]byte, error)  { return nil, ErrNoWorkspace }
func (noSandbox) WriteFile(string, []byte) error   { return ErrNoWorkspace }
func (noSandbox) Stat(string) (fs.FileInfo, error) { return nil, ErrNoWorkspace }
func (noSandbox) Remove(string) error              { return ErrNoWorkspace }
func (noSandbox) Rename(string, string) error      { return ErrNoWorkspace }
func (noSandbox) FS() fs.FS                        { return embed.FS{} }
func (noSandbox) Destroy(context.Context) error    { return nil }
