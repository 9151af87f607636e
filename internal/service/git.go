package service

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/egress/policy"
	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/secret"
)

// knownHosts is the file of the folder of keys that has the servers' own.
const knownHosts = "known_hosts"

// checkGit looks at the settings of git work.
func (c *Config) checkGit() error {
	var errs []error
	for _, p := range c.GitProtocols {
		if !slices.Contains([]string{"https", "ssh", "http", "file"}, p) {
			errs = append(errs, fmt.Errorf("INSPAN_GIT_PROTOCOLS has %q, want https, ssh, http or file", p))
		}
	}
	if err := gitwork.CheckHosts(c.GitHosts); err != nil {
		errs = append(errs, fmt.Errorf("INSPAN_GIT_HOSTS: %w", err))
	}
	if _, err := c.gitPrivate(); err != nil {
		errs = append(errs, err)
	}
	if c.GitTimeout < 0 || c.GitTimeout > 0 && c.GitTimeout < time.Second {
		errs = append(errs, fmt.Errorf("INSPAN_GIT_TIMEOUT is %s, want at least 1s, or 0 for 10m", c.GitTimeout))
	}
	if c.GitMaxBytes < 0 {
		errs = append(errs, fmt.Errorf("INSPAN_GIT_MAX_BYTES is %d, want 0 or more", c.GitMaxBytes))
	}
	if c.GitKeep < 0 || c.GitKeep > 0 && c.GitKeep < time.Hour {
		errs = append(errs, fmt.Errorf("INSPAN_GIT_KEEP is %s, want at least 1h, or 0 for 720h", c.GitKeep))
	}
	if c.GitCAFile != "" && !filepath.IsAbs(c.GitCAFile) {
		errs = append(errs, fmt.Errorf("INSPAN_GIT_CA_FILE is %q, want an absolute path", c.GitCAFile))
	}
	if u, err := url.Parse(c.GitProxy); err != nil || u.User != nil || c.GitProxy != "" && u.Host == "" {
		errs = append(errs, errors.New("INSPAN_GIT_PROXY is no address such as http://proxy:3128, without a user and a password"))
	}
	_, _, err := c.gitKeys()
	return errors.Join(append(errs, err)...)
}

func (c *Config) gitPrivate() ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range c.GitPrivate {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("INSPAN_GIT_PRIVATE: %q is no range such as 10.1.0.0/16: %w", text, err)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// gitKeys reads the folder of ssh keys: by the name of its file, which is that of a host, and what is masked.
func (c *Config) gitKeys() (byHost map[string]secret.Value, masked []secret.Value, err error) {
	if c.GitKeys == "" {
		return nil, nil, nil
	}
	entries, err := os.ReadDir(c.GitKeys)
	if err != nil {
		return nil, nil, fmt.Errorf("INSPAN_GIT_KEYS: %w", err)
	}
	byHost = map[string]secret.Value{}
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(c.GitKeys, e.Name()))
		if err != nil {
			return nil, nil, fmt.Errorf("INSPAN_GIT_KEYS: %w", err)
		}
		v := secret.New(string(data))
		byHost[e.Name()] = v
		if e.Name() == knownHosts {
			continue
		}
		masked = append(masked, v)
		for line := range strings.SplitSeq(v.Reveal(), "\n") {
			if len(line) >= 4*shortestSecret && !strings.HasPrefix(line, "-----") {
				masked = append(masked, secret.New(line))
			}
		}
	}
	return byHost, masked, nil
}

// gitCredential finds what a remote is shown: one of gitKeys by ssh, and by http or https the Authorization header
// that requests for that very host and port are given anyway.
func (c *Config) gitCredential(keys map[string]secret.Value) (func(context.Context, string, string) (git.Credential, error), error) {
	headers, err := c.credentials()
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, scheme, host string) (git.Credential, error) {
		if scheme == "ssh" {
			name, port, there := strings.Cut(host, ":")
			key := keys[name]
			if own := keys[name+"_"+port]; there && !own.Empty() {
				key = own
			}
			return git.Credential{Key: key, KnownHosts: keys[knownHosts].Reveal()}, nil
		}
		usual := uint16(policy.PortHTTPS)
		if scheme == "http" {
			usual = policy.PortHTTP
		}
		want, err := policy.ParseTarget(host, usual)
		if err != nil {
			return git.Credential{}, nil //nolint:nilerr // there is none for what is no host
		}
		for _, held := range headers {
			at, err := policy.ParseTarget(held.Host, usual)
			if err == nil && at == want && held.Plain == (scheme == "http") && strings.EqualFold(held.Header, "Authorization") {
				return login(held.Value), nil
			}
		}
		return git.Credential{}, nil
	}, nil
}

// login is what a header of an Authorization says, as git asks for it.
func login(header secret.Value) git.Credential {
	kind, rest, _ := strings.Cut(header.Reveal(), " ")
	if strings.EqualFold(kind, "Basic") {
		if plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest)); err == nil {
			user, pass, _ := strings.Cut(string(plain), ":")
			return git.Credential{User: user, Password: secret.New(pass)}
		}
	}
	return git.Credential{Password: secret.New(rest)}
}

// desk does the git work of runs, nil where this machine has no git. masked are the keys that it is given.
func (h *Host) desk() (desk *gitwork.Desk, masked []secret.Value, err error) {
	c := h.cfg
	private, err1 := c.gitPrivate()
	keys, masked, err2 := c.gitKeys()
	credential, err3 := c.gitCredential(keys)
	root, err4 := filepath.Abs(c.Workspace)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, nil, err
	}
	reach := gitwork.Reach{Hosts: c.GitHosts, Private: private, Proxied: c.GitProxy != ""}
	g := h.ports.Git
	if g == nil {
		g, err = git.New(git.Config{Protocols: c.GitProtocols, Proxy: c.GitProxy, CAFile: c.GitCAFile, Credential: credential, Reach: reach.Addresses, Ignore: gitwork.Own(),
			Limits: git.Limits{Time: c.GitTimeout, Pack: c.GitMaxBytes, Bytes: 2 * c.GitMaxBytes}})
	}
	if errors.Is(err, exec.ErrNotFound) {
		h.log.Info().Err(err).Msg("no git work here")
		return nil, masked, nil
	}
	if err != nil {
		return nil, nil, err
	}
	cfg := gitwork.Config{Git: g, Author: git.Author{Name: c.GitAuthorName, Email: c.GitAuthorEmail}, Root: root, Locks: filepath.Join(root, ".git-work"), Keep: c.GitKeep}
	if h.ports.Trees != nil {
		cfg.Blobs, cfg.Shelf = h.ports.Blobs, h.ports.Trees
	}
	desk, err = gitwork.New(cfg)
	return desk, masked, err
}

// tellWalls warns where commands can lead git out of a workspace.
func (h *Host) tellWalls(ctx context.Context, desk *gitwork.Desk) {
	if desk == nil {
		return
	}
	if err := desk.Walled(ctx); err != nil && ctx.Err() == nil {
		h.log.Warn().Err(err).Msg("git works without walls here: see Git and the commands beside it in docs/git.md")
	}
}

// rescue keeps what no remote has of a workspace before it is removed, and says where; nil where no git work is done.
func (h *Host) rescue(desk *gitwork.Desk) func(ctx context.Context, workspace, dir string) (bool, error) {
	if desk == nil {
		return nil
	}
	return func(ctx context.Context, at, dir string) (bool, error) {
		kept, whole, err := desk.Rescue(ctx, at, dir)
		for _, k := range kept {
			h.log.Info().Str("workspace", at).Str("branch", k.Branch).Str("commit", k.Commit).Str("kept", k.Artifact).Msg("unpushed work kept before the workspace is removed")
		}
		return whole && err == nil, err
	}
}

// expireEvery is how often a toolrunner looks for published branches whose time is over.
const expireEvery = time.Hour

// expiring takes published branches away whose time is over, at once and then now and then, while run runs.
func (h *Host) expiring(log zerolog.Logger, run func(context.Context) error) (func(context.Context) error, error) {
	desk, _, err := h.desk()
	if desk == nil || err != nil {
		return run, err
	}
	return func(ctx context.Context) error {
		inner, stop := context.WithCancel(ctx)
		var looking sync.WaitGroup
		looking.Go(func() {
			tick := time.NewTicker(expireEvery)
			defer tick.Stop()
			for inner.Err() == nil {
				n, err := desk.Expire(inner, time.Now())
				if n > 0 {
					log.Info().Int("branches", n).Msg("published branches removed whose time is over")
				}
				if err != nil && inner.Err() == nil {
					log.Warn().Err(err).Msg("published branches not looked after, will try again")
				}
				select {
				case <-inner.Done():
				case <-tick.C:
				}
			}
		})
		err := run(ctx)
		stop()
		looking.Wait()
		return err
	}, nil
}
