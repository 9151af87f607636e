package git

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// standardPort is that of addresses that name none.
func standardPort(scheme string) string {
	switch scheme {
	case "https":
		return "443"
	case "ssh":
		return "22"
	}
	return "80"
}

// reach asks where a remote may be reached and ties the call to that: whatever its name leads to a moment later, no
// other address is dialled.
func (p *workspaceDir) reach(ctx context.Context, g *runner, r *remote) (config string, err error) {
	if g.cfg.Reach == nil || r.scheme == "file" {
		return "", nil
	}
	addrs, err := g.cfg.Reach(ctx, r.scheme, r.host)
	if err != nil || len(addrs) == 0 {
		return "", err
	}
	host, port, err := net.SplitHostPort(r.host)
	if err != nil {
		host, port = r.host, standardPort(r.scheme)
	}
	host = strings.Trim(host, "[]")
	if r.scheme == "ssh" {
		p.host, p.alias = addrs[0].String(), host
		if port != standardPort("ssh") {
			p.alias = "[" + host + "]:" + port // as known hosts are written
		}
		return "", nil
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return "", nil // it is dialled as it stands
	}
	var list []string
	for _, a := range addrs {
		text := a.String()
		if a.Is6() {
			text = "[" + text + "]"
		}
		list = append(list, text)
	}
	return fmt.Sprintf("\tcurloptResolve = \"%s:%s:%s\"\n", host, port, strings.Join(list, ",")), nil
}
