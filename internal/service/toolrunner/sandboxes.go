package toolrunner

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/backends"
	"github.com/inspan/inspan/internal/sandbox/helper"
	"github.com/inspan/inspan/internal/sandbox/launch"
	"github.com/inspan/inspan/internal/sandbox/pool"
)

// Sandboxes picks the sandboxes of this machine: the configured default, which must work, and the others for agents
// that ask for them by name; whether those work is seen then. It returns the mode that the default came to.
func Sandboxes(ctx context.Context, cfg Config) (*pool.Opener, sandbox.Mode, error) {
	set, optIn := backends.Local(""), cfg.optIn()
	picked, err := set.With(optIn...).Choose(ctx, backends.Policy{Mode: sandbox.Mode(cfg.Sandbox),
		Backend: sandbox.Mode(cfg.SandboxBackend), Min: sandbox.Mode(cfg.SandboxMin)})
	if err != nil {
		return nil, "", fmt.Errorf("INSPAN_SANDBOX: %w", err)
	}
	hidden, _, err := cfg.SecretEnv()
	if err != nil {
		return nil, "", err
	}
	closed, err := cfg.closed()
	if err != nil {
		return nil, "", err
	}
	policy, _, err := agentfile.LoadPolicy(cfg.Policy)
	if err != nil {
		return nil, "", err
	}
	readOnly, env := withGo(withPackages(cfg), cfg.SandboxEnv)
	env = append(slices.Clone(env), hidden...)
	sb := pool.Config{Root: cfg.Workspace, Default: picked.Mode(), Least: sandbox.Mode(cfg.SandboxMin), ReadOnly: readOnly,
		Env:    env,
		Cache:  filepath.Join(cfg.Workspace, ".cache"),
		Keep:   cfg.SandboxKeep,
		Shared: shared(cfg),
		Closed: closed, Reaches: cfg.reaches(), Programs: deniedPrograms(policy.Rules),
		Backends: map[sandbox.Mode]sandbox.Backend{picked.Mode(): picked}}
	for _, b := range optIn {
		sb.Backends[b.Mode()] = b // for agents that name it; what is missing is told when a sandbox is opened
	}
	for _, b := range set.Backends() {
		if b.Mode() != picked.Mode() {
			sb.Backends[b.Mode()], sb.Unprobed = b, append(sb.Unprobed, b.Mode())
		}
	}
	sandboxes, err := pool.NewOpener(sb)
	return sandboxes, picked.Mode(), err
}

// withPackages adds the folder of installed MCP servers to the paths that commands may read, where it is there.
func withPackages(cfg Config) []string {
	at, err := filepath.Abs(cfg.Packages())
	if err != nil || cfg.Packages() == "" {
		return cfg.SandboxReadOnly
	}
	if info, err := os.Stat(at); err != nil || !info.IsDir() {
		return cfg.SandboxReadOnly
	}
	return append(slices.Clone(cfg.SandboxReadOnly), at)
}

// shared is the cache of compiled code that the sandboxes of this machine read; nil for none.
func shared(cfg Config) *pool.Shared {
	dir := cfg.BuildCache
	if dir == "" || dir == "off" {
		return nil
	}
	if dir == "auto" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil
		}
		dir = filepath.Join(cache, "inspan", "build")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil
	}
	program, err := helper.Installed()
	if err != nil {
		if _, err := launch.Self(); err != nil {
			return nil // this program is no cache
		}
		if program, err = os.Executable(); err != nil {
			return nil
		}
	}
	if program, err = filepath.EvalSymlinks(program); err != nil {
		return nil
	}
	return &pool.Shared{Dir: dir, Program: program}
}

// systemPath is where commands of a sandbox are looked for anyway.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// withGo lets commands find the Go toolchain of this machine, which often is not on the system's path: agents that
// write Go need it. Other toolchains are named with INSPAN_SANDBOX_ENV=PATH=... and INSPAN_SANDBOX_READ_ONLY.
func withGo(readOnly, env []string) ([]string, []string) {
	for _, e := range env {
		if strings.HasPrefix(e, "PATH=") {
			return readOnly, env
		}
	}
	program, err := exec.LookPath("go")
	if err != nil {
		return readOnly, env
	}
	if program, err = filepath.EvalSymlinks(program); err != nil {
		return readOnly, env
	}
	bin := filepath.Dir(program)
	if root := filepath.Dir(bin); !strings.HasPrefix(root, "/usr/") {
		readOnly = append(slices.Clone(readOnly), root)
	}
	return readOnly, append(slices.Clone(env), "PATH="+bin+":"+systemPath)
}
