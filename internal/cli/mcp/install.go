package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	client "github.com/inspan/inspan/internal/mcp"
	"github.com/inspan/inspan/pkg/events"
)

// installCommand is inspan mcp install.
type installCommand struct{ target }

func installCmd(a *app.App) *cobra.Command {
	c := &installCommand{target{App: a}}
	cmd := &cobra.Command{
		Use: "install SERVER --agent NAME", Short: "Install the package of a server that npx or uvx would download in each run",
		Long: `Installs the package with npm or pip, outside of sandboxes and as you, into the folder that INSPAN_MCP_PACKAGES names: one
folder for each package and version, which sandboxes can read and not change. Scripts of npm packages are not run, and of Python
packages only built ones (wheels) are taken. Then the command of the server in the agent file names the installed program, and its
tools are pinned again. The sandbox of the agent needs no network for it.`,
		Example: "  inspan mcp install files --agent coder",
		Args:    app.Args(1),
		RunE:    c.run,
	}
	c.flags(cmd, true)
	return cmd
}

func (c *installCommand) run(cmd *cobra.Command, args []string) error {
	if err := c.load(); err != nil {
		return err
	}
	s, err := c.server(args[0])
	if err != nil {
		return err
	}
	command, err := installed(cmd.Context(), c.App, s)
	if err != nil {
		return err
	}
	s.Command, s.Protocol = command, ""
	text, err := agentfile.SetServerCommand(c.file, c.text, s.Name, command)
	if err != nil {
		return err
	}
	return c.pin(cmd.Context(), s, text)
}

// installed installs what the command of a server downloads, and returns the command that runs it from then on.
func installed(ctx context.Context, a *app.App, s events.MCPServer) ([]string, error) {
	d, ok := client.Downloads(s.Command)
	if !ok {
		return nil, app.Usage("the command of server %s downloads nothing that can be installed: it does not begin with npx, bunx or uvx", s.Name)
	}
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	base := cfg.Packages()
	if base == "" {
		return nil, errors.New("there is no folder for packages: set INSPAN_MCP_PACKAGES to one")
	}
	if base, err = filepath.Abs(base); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return nil, fmt.Errorf("the folder for packages: %w", err)
	}
	fresh, err := os.MkdirTemp(base, ".new-")
	if err != nil {
		return nil, fmt.Errorf("the folder for packages: %w", err)
	}
	defer os.RemoveAll(fresh) // it was moved, or holds what could not be used
	if err := os.Chmod(fresh, 0o755); err != nil {
		return nil, err
	}
	fmt.Fprintf(a.Err, "Installing %s below %s ...\n", terminal.Sanitize(d.Package), base)
	if d.Runner == "uvx" {
		return fromPyPI(ctx, d, base, fresh)
	}
	return fromNPM(ctx, d, base, fresh)
}

// fetch runs a package manager.
func fetch(ctx context.Context, what, hint string, args ...string) error {
	if _, err := exec.LookPath(args[0]); err != nil {
		return fmt.Errorf("install %s: there is no program %s: %s", what, args[0], hint)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(said.String())
		return fmt.Errorf("install %s with %s: %w\n%s", what, args[0], err, text[max(0, len(text)-maxSaid):])
	}
	return nil
}

// maxSaid is how much of the words of a package manager an error has.
const maxSaid = 2 << 10

// moved puts an installed package where it stays; what is there already is the same version.
func moved(fresh, base, kind, name, version string) (string, error) {
	at := filepath.Join(base, kind, strings.ReplaceAll(name, "/", "+")+"@"+version)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return "", err
	}
	if _, err := os.Stat(at); err == nil {
		return at, nil
	}
	if err := os.Rename(fresh, at); err != nil {
		return "", fmt.Errorf("keep package %s: %w", name, err)
	}
	return at, nil
}

// npmPackage is what matters of package.json.
type npmPackage struct {
	Version      string            `json:"version"`
	Bin          json.RawMessage   `json:"bin"`
	Dependencies map[string]string `json:"dependencies"`
}

func readPackage(dir string) (p npmPackage, err error) {
	b, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	return p, err
}

// program is the path of a package's program; name may be empty where it has one alone, or one of its own name.
func (p npmPackage) program(pkg, name string) (string, error) {
	var one string
	if json.Unmarshal(p.Bin, &one) == nil && one != "" {
		return local(one)
	}
	var many map[string]string
	if err := json.Unmarshal(p.Bin, &many); err != nil || len(many) == 0 {
		return "", fmt.Errorf("package %s has no program", pkg)
	}
	names := slices.Sorted(maps.Keys(many))
	if own := pkg[strings.LastIndex(pkg, "/")+1:]; name == "" && many[own] != "" {
		name = own
	}
	if name == "" && len(names) == 1 {
		name = names[0]
	}
	if many[name] == "" {
		return "", fmt.Errorf("package %s has the programs %s: name one with npx -p %s PROGRAM", pkg,
			strings.Join(names, ", "), pkg)
	}
	return local(many[name])
}

func local(path string) (string, error) {
	if !filepath.IsLocal(path) {
		return "", fmt.Errorf("the package names a program outside of itself: %q", path)
	}
	return path, nil
}

func fromNPM(ctx context.Context, d client.Download, base, fresh string) ([]string, error) {
	if err := fetch(ctx, d.Package, "install Node.js, which has it", "npm", "install", "--prefix", fresh,
		"--ignore-scripts",
		"--omit=dev", "--no-audit", "--no-fund", "--loglevel=error", "--", d.Package); err != nil {
		return nil, err
	}
	top, err := readPackage(fresh)
	names := slices.Collect(maps.Keys(top.Dependencies))
	if err != nil || len(names) != 1 {
		return nil, fmt.Errorf("npm did not install one package for %s: %q, %w", d.Package, names, err)
	}
	name := names[0]
	p, err := readPackage(filepath.Join(fresh, "node_modules", filepath.FromSlash(name)))
	if err != nil {
		return nil, fmt.Errorf("package %s: %w", name, err)
	}
	program, err := p.program(name, d.Program)
	if err != nil {
		return nil, err
	}
	at, err := moved(fresh, base, "npm", name, p.Version)
	if err != nil {
		return nil, err
	}
	return append([]string{"node", filepath.Join(at, "node_modules", filepath.FromSlash(name), program)}, d.Args...), nil
}

func fromPyPI(ctx context.Context, d client.Download, base, fresh string) ([]string, error) {
	name, version, pinned := strings.Cut(strings.Replace(d.Package, "@", "==", 1), "==")
	wanted := name
	if pinned && version != "latest" {
		wanted += "==" + version
	}
	args := []string{"python3", "-m", "pip", "install", "--target", fresh, "--only-binary", ":all:", "--no-input",
		"--quiet", wanted}
	if _, err := exec.LookPath("uv"); err == nil {
		args = []string{"uv", "pip", "install", "--target", fresh, "--only-binary", ":all:", "--quiet", wanted}
	}
	if err := fetch(ctx, d.Package, "install uv, or Python with pip", args...); err != nil {
		return nil, err
	}
	bare, _, _ := strings.Cut(name, "[")
	plain := strings.NewReplacer("-", "_", ".", "_").Replace(strings.ToLower(bare))
	infos, err := filepath.Glob(filepath.Join(fresh, "*.dist-info"))
	if err != nil {
		return nil, err
	}
	version = ""
	for _, info := range infos {
		dist, v, _ := strings.Cut(strings.TrimSuffix(filepath.Base(info), ".dist-info"), "-")
		if strings.NewReplacer("-", "_", ".", "_").Replace(strings.ToLower(dist)) == plain {
			version = v
		}
	}
	program := filepath.Join("bin", bare)
	if d.Program != "" {
		program = filepath.Join("bin", d.Program)
	}
	if program, err = local(program); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(fresh, program)); err != nil || version == "" {
		return nil, fmt.Errorf("package %s has no program %s: name one with uvx --from %s PROGRAM", bare,
			filepath.Base(program), d.Package)
	}
	at, err := moved(fresh, base, "pypi", plain, version)
	if err != nil {
		return nil, err
	}
	return append([]string{"env", "PYTHONPATH=" + at, "python3", filepath.Join(at, program)}, d.Args...), nil
}
