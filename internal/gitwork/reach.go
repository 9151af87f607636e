package gitwork

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/inspan/inspan/internal/egress/policy"
	"github.com/inspan/inspan/internal/git"
)

// Reach says which remotes may be reached.
type Reach struct {
	// Hosts are names such as "github.com", "*.example.com" for all below one, or "*". None means "*".
	Hosts []string
	// Private are ranges of addresses that are not public and may be reached all the same.
	Private []netip.Prefix
	// Proxied says that a proxy dials http and https: a name that leads nowhere here is left to it.
	Proxied bool
	// Resolve returns the addresses of a name; nil asks the name servers of this machine.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
}

// Addresses gives the addresses at which a remote may be reached, as git.Config.Reach wants it. Its errors are
// ErrRefused, or git.ErrUnreachable where a name leads nowhere.
func (r Reach) Addresses(ctx context.Context, scheme, host string) ([]netip.Addr, error) {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	if strings.HasSuffix(name, ".") {
		return nil, fmt.Errorf("host %q: %w: a name does not end with a dot", name, ErrRefused)
	}
	t, err := policy.ParseHost(name)
	if err != nil {
		return nil, fmt.Errorf("host %q: %w: %w", name, ErrRefused, err)
	}
	if !r.named(t) {
		return nil, fmt.Errorf("host %s: %w: it is not in INSPAN_GIT_HOSTS", t.Host(), ErrRefused)
	}
	addrs := []netip.Addr{t.Addr}
	if !t.Addr.IsValid() {
		if addrs, err = r.resolve(ctx, t.Name); err != nil || len(addrs) == 0 {
			if r.Proxied && scheme != "ssh" {
				return nil, nil
			}
			return nil, fmt.Errorf("host %s: %w: the name has no address (check its spelling)", t.Name, git.ErrUnreachable)
		}
	}
	var out []netip.Addr
	for _, a := range addrs {
		if a = a.Unmap(); a.Zone() == "" && (policy.Public(a) || slices.ContainsFunc(r.Private, func(p netip.Prefix) bool { return p.Contains(a) })) {
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("host %s: %w: its address is not public (an operator can allow it in INSPAN_GIT_PRIVATE)",
			t.Host(), ErrRefused)
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].BitLen() < out[j].BitLen() }) // not all machines speak IPv6
	return out, nil
}

func (r Reach) named(t policy.Target) bool {
	if len(r.Hosts) == 0 {
		return true
	}
	return slices.ContainsFunc(r.Hosts, func(h string) bool {
		below, wild := strings.CutPrefix(h, "*.")
		want, err := policy.ParseHost(below)
		switch {
		case h == "*":
			return true
		case err != nil:
			return false
		case wild:
			return t.Name != "" && strings.HasSuffix(t.Name, "."+want.Name)
		}
		return want == t
	})
}

func (r Reach) resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	if r.Resolve != nil {
		return r.Resolve(ctx, name)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name+".") // the dot keeps the search list of this machine out of it
}

// allowed refuses repositories of workspaces as remotes: what receives a push there would run their hooks.
func (w *place) allowed(url string) error {
	path, ok := git.FileAddress(url)
	if !ok {
		return nil
	}
	for _, p := range []string{path, real(path)} {
		for _, root := range []string{w.cfg.Root, real(w.cfg.Root)} {
			if rel, err := filepath.Rel(root, p); err == nil && filepath.IsLocal(rel) {
				return fmt.Errorf("git address %q: %w: it is inside the workspaces", url, ErrRefused)
			}
		}
	}
	return nil
}

// real is a path without links, as far as it is there.
func real(path string) string {
	if at, err := filepath.EvalSymlinks(path); err == nil {
		return at
	}
	return filepath.Clean(path)
}
