package toolrunner

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/egress/policy"
	"github.com/inspan/inspan/internal/forge"
	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
)

// gitCredential finds what a remote is shown: one of gitKeys by ssh, and by http or https the Authorization header
// that requests for that very host and port are given anyway.
func (c Config) gitCredential(keys map[string]secret.Value) (func(context.Context, string, string) (git.Credential,
	error), error) {
	headers, err := c.HostCredentials()
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
			return git.Credential{Key: key, KnownHosts: keys[service.KnownHosts].Reveal()}, nil
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
func (h *wiring) desk() (desk *gitwork.Desk, masked []secret.Value, err error) {
	c := h.cfg
	private, err1 := service.PrivateRanges(c.GitWork)
	keys, masked, err2 := c.Keys()
	credential, err3 := c.gitCredential(keys)
	root, err4 := filepath.Abs(c.Workspace)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, nil, err
	}
	reach := gitwork.Reach{Hosts: c.GitHosts, Private: private, Proxied: c.GitProxy != ""}
	g := h.deps.Git
	if g == nil {
		g, err = git.New(git.Config{Protocols: c.GitProtocols, Proxy: c.GitProxy, CAFile: c.GitCAFile, Credential: credential,
			Reach: reach.Addresses, Ignore: gitwork.Own(),
			Limits: git.Limits{Time: c.GitTimeout, Pack: c.GitMaxBytes, Bytes: 2 * c.GitMaxBytes}})
	}
	if errors.Is(err, exec.ErrNotFound) {
		h.in.Log.Info().Err(err).Msg("no git work here")
		return nil, masked, nil
	}
	if err != nil {
		return nil, nil, err
	}
	cfg := gitwork.Config{Git: g, Author: git.Author{Name: c.GitAuthorName, Email: c.GitAuthorEmail}, Root: root,
		Locks: filepath.Join(root, ".git-work"), Keep: c.GitKeep}
	cfg.Forges, err = forge.New(forge.Config{Token: func(ctx context.Context, scheme, host string) (secret.Value, error) {
		shown, err := credential(ctx, scheme, host)
		return shown.Password, err
	}, Reach: reach.Addresses, Plain: slices.Contains(c.GitProtocols, "http"), Proxy: c.GitProxy, CAFile: c.GitCAFile})
	if err != nil {
		return nil, nil, fmt.Errorf("reviews: %w", err)
	}
	if h.in.Ports.Trees != nil {
		cfg.Blobs, cfg.KV = h.in.Ports.Blobs, h.in.Ports.Trees
	}
	desk, err = gitwork.New(cfg)
	return desk, masked, err
}

// tellWalls warns where commands can lead git out of a workspace.
func (h *wiring) tellIsolation(ctx context.Context, desk *gitwork.Desk) {
	if desk == nil {
		return
	}
	if err := desk.Walled(ctx); err != nil && ctx.Err() == nil {
		h.in.Log.Warn().Err(err).Msg("git works without walls here: see Git and the commands beside it in docs/git.md")
	}
}

// rescue keeps what no remote has of a workspace before it is removed, and says where; nil where no git work is done.
func (h *wiring) rescue(desk *gitwork.Desk) func(ctx context.Context, workspace, dir string) (bool, error) {
	if desk == nil {
		return nil
	}
	return func(ctx context.Context, at, dir string) (bool, error) {
		kept, whole, err := desk.Rescue(ctx, at, dir)
		for _, k := range kept {
			h.in.Log.Info().Str("workspace", at).Str("branch", k.Branch).Str("commit", k.Commit).Str("kept",
				k.Artifact).Msg("unpushed work kept before the workspace is removed")
		}
		return whole && err == nil, err
	}
}

// expireEvery is how often a toolrunner looks for published branches whose time is over.
const expireEvery = time.Hour

// expiring takes published branches away whose time is over, at once and then now and then, while what it is given
// runs.
func (h *wiring) expiring(log zerolog.Logger) (func(service.Run) service.Run, error) {
	desk, _, err := h.desk()
	if desk == nil || err != nil {
		return func(run service.Run) service.Run { return run }, err
	}
	return func(run service.Run) service.Run { return expired(desk, log, run) }, nil
}

func expired(desk *gitwork.Desk, log zerolog.Logger, run service.Run) service.Run {
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
	}
}
