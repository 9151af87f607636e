package git

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/secret"
)

// Credential is what a remote is shown. The zero Credential shows nothing.
type Credential struct {
	// User and Password are for http and https. A token is a Password; hosts differ in the User that goes with it.
	User     string
	Password secret.Value
	// Key is a private key for ssh, in OpenSSH or PEM form without a passphrase. KnownHosts are lines as in a
	// known_hosts file: a host that is not among them is refused.
	Key        secret.Value
	KnownHosts string
}

// Limits bound one call. A field of 0 means its default.
type Limits struct {
	// Time is how long a call may take: 10 min.
	Time time.Duration
	// Output is the most bytes that git may print to be read here: 64 MiB.
	Output int64
	// Pack is the most bytes of one pack or one file that git may write: 2 GiB.
	Pack int64
	// Memory is the most bytes of memory that a git, or a helper of it, may ask for: 4 GiB.
	Memory int64
	// Bytes and Files are the most that a tree which is checked out, committed, kept or restored may have: 4 GiB,
	// 500000.
	Bytes int64
	Files int
}

// Config of a Git.
type Config struct {
	// Program is the path of git. Empty: looked for in the system's places.
	Program string
	// Temp is where private directories are made; they must not be seen in sandboxes. Empty: the system's place.
	Temp string
	// Protocols that may be spoken. Empty: https and ssh.
	Protocols []string
	// Proxy, if set, is the address of the proxy for http and https. CAFile, if set, holds the certificates to believe.
	Proxy, CAFile string
	// Credential gives what to show to a remote, scheme being https, http or ssh, and host with its port if it has one.
	// Nil: nothing. It is asked once for each call to a remote.
	Credential func(ctx context.Context, scheme, host string) (Credential, error)
	// Reach gives the addresses at which a remote may be reached, scheme and host as for Credential; it is dialled at
	// one of these and at no other, unless there is a Proxy for it. None means wherever the name leads. Nil: always so.
	Reach func(ctx context.Context, scheme, host string) ([]netip.Addr, error)
	// Ignore are patterns, as a .gitignore has them, of files that are left out of what Status and Commit see.
	Ignore []string
	Limits Limits
}

// Git starts the git program.
type Git struct{ runner }

// runner runs the program, each time in a private place.
type runner struct {
	cfg       Config
	program   string
	isolation *isolation
}

const systemPath = "/usr/local/bin:/usr/bin:/bin"

// oldest is the oldest git that has what is used here: merges without a working tree.
var oldest = [2]int{2, 38}

// New checks a Config and finds the program.
func New(cfg Config) (*Git, error) {
	if cfg.Program == "" {
		for _, dir := range filepath.SplitList(systemPath) {
			at := filepath.Join(dir, "git")
			if info, err := os.Stat(at); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				cfg.Program = at
				break
			}
		}
	}
	if cfg.Program == "" {
		return nil, fmt.Errorf("git not found in %s: %w (install git)", systemPath, exec.ErrNotFound)
	}
	if !filepath.IsAbs(cfg.Program) {
		return nil, fmt.Errorf("git program %q: want an absolute path", cfg.Program)
	}
	if len(cfg.Protocols) == 0 {
		cfg.Protocols = []string{"https", "ssh"}
	}
	for _, p := range cfg.Protocols {
		if !slices.Contains([]string{"https", "http", "ssh", "file", "git"}, p) {
			return nil, fmt.Errorf("git protocol %q: want https, http, ssh, git or file: %w", p, ErrProtocol)
		}
	}
	for _, path := range []string{cfg.Temp, cfg.CAFile} {
		if path != "" && !filepath.IsAbs(path) {
			return nil, fmt.Errorf("git: path %q: want an absolute path", path)
		}
	}
	if err := plain(append([]string{cfg.Proxy, cfg.CAFile}, cfg.Ignore...)...); err != nil {
		return nil, err
	}
	cfg.Limits = cfg.Limits.filled()
	return &Git{runner{cfg: cfg, program: cfg.Program, isolation: &isolation{}}}, nil
}

func (l Limits) filled() Limits {
	if l.Time <= 0 {
		l.Time = 10 * time.Minute
	}
	for _, f := range []struct {
		at       *int64
		standard int64
	}{{&l.Output, 64 << 20}, {&l.Pack, 2 << 30}, {&l.Memory, 4 << 30}, {&l.Bytes, 4 << 30}} {
		if *f.at <= 0 {
			*f.at = f.standard
		}
	}
	if l.Files <= 0 {
		l.Files = 500_000
	}
	return l
}

// Probe reports whether the program is a git that is new enough, 2.38.
func (g *runner) Probe(ctx context.Context) error {
	out, err := g.run(ctx, call{args: []string{"version"}})
	if err != nil {
		return err
	}
	fields := strings.Fields(out)
	if len(fields) < 3 {
		return errors.New("git version: no version in the output (install git 2.38 or newer)")
	}
	parts := strings.SplitN(fields[2], ".", 3)
	if len(parts) >= 2 {
		major, err1 := strconv.Atoi(parts[0])
		minor, err2 := strconv.Atoi(parts[1])
		if err1 == nil && err2 == nil && (major > oldest[0] || major == oldest[0] && minor >= oldest[1]) {
			return nil
		}
	}
	return fmt.Errorf("git is %q (install git 2.38 or newer)", fields[2])
}
