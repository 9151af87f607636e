package agentfile

import (
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/pkg/events"
)

// Limits of the servers of one agent.
const (
	MaxServers = 16
	maxCommand = 64
	maxEnv     = 64
	maxEffects = 256
)

// mcpPrefix begins what stands for a server's tools in the list of tools: mcp:server/tool.
const mcpPrefix = "mcp:"

var (
	mcpRule    = pattern.New(`^mcp:[a-z0-9][a-z0-9-]{0,31}/[A-Za-z0-9_*?.-]{1,128}$`)
	serverRule = pattern.New(`^[a-z0-9][a-z0-9-]{0,31}$`)
	envRule    = pattern.New(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	headerRule = pattern.New(`^[A-Za-z0-9-]{1,64}$`)
	// takenHeaders are set by the transport; a file that changed them would break or smuggle requests.
	takenHeaders = []string{"host", "content-length", "content-type", "transfer-encoding", "connection", "accept",
		"mcp-session-id", "mcp-protocol-version"}
)

func mcpShape() shape {
	words := shape{kinds: []kind{isText}, most: 4 << 10}
	server := mapping(map[string]field{
		"command": acts(list(words, maxCommand)),
		"env":     acts(shape{kinds: []kind{isMap}, each: &words, most: maxEnv}),
		"url":     acts(words),
		"headers": acts(shape{kinds: []kind{isMap}, each: &words, most: maxEnv}),
		"timeout": acts(duration(time.Millisecond, maxTimeout)),
		"effects": acts(shape{kinds: []kind{isMap}, each: ptr(oneOf("read", "idempotent", "once")), most: maxEffects}),
	})
	return shape{kinds: []kind{isMap}, each: &server, most: MaxServers}
}

func ptr[T any](v T) *T { return &v }

// servers reads the servers of MCP tools, and warns of names under tools that no server stands behind.
func (p *parsing) servers(root *node) []events.MCPServer {
	var out []events.MCPServer
	if m := root.child("mcp"); m != nil && m.kind == isMap {
		for _, pr := range m.pairs {
			if foreign(pr.key) {
				continue
			}
			if !serverRule.MatchString(pr.key) {
				p.fail(&Error{Code: CodeValue, Line: pr.line, Path: pr.value.path, Message: "the key is not the name of a server",
					Expected: "1 to 32 characters of a-z 0-9 and -", Actual: shown(pr.key)})
				continue
			}
			if pr.value.kind == isMap {
				out = append(out, p.server(pr.key, pr.value))
			}
		}
	}
	tools := root.child("tools")
	if tools == nil {
		return out
	}
	for _, t := range tools.items {
		name, _, ok := strings.Cut(strings.TrimPrefix(t.text, mcpPrefix), "/")
		if ok && mcpRule.MatchString(t.text) && !slices.ContainsFunc(out, func(s events.MCPServer) bool {
			return s.Name == name
		}) {
			p.warn(Warning{Code: CodeNoEffect, Line: t.line, Path: t.path, Message: "there is no server " + name + " under mcp",
				Hint: "add mcp." + name + " with a command or a url: until then the agent does not have " + t.text})
		}
	}
	return out
}

func (p *parsing) server(name string, n *node) events.MCPServer {
	s := events.MCPServer{Name: name, Command: n.child("command").words(), URL: n.child("url").str(),
		TimeoutMS: n.child("timeout").milliseconds()}
	s.Env = p.named(n.child("env"), p.env)
	s.Headers = p.named(n.child("headers"), p.header)
	if e := n.child("effects"); e != nil {
		for _, pr := range e.pairs {
			if _, err := path.Match(pr.key, ""); err != nil || pr.key == "" {
				p.fail(&Error{Code: CodeValue, Line: pr.line, Path: pr.value.path, Message: "the pattern cannot be read",
					Expected: "a name, or a glob such as list_*", Actual: shown(pr.key)})
			}
			s.Effects = append(s.Effects, events.MCPEffect{Tool: pr.key, Effect: pr.value.str()})
		}
	}
	switch {
	case (len(s.Command) == 0 || s.Command[0] == "") == (s.URL == ""):
		p.failAt(n, Error{Code: CodeValue, Message: "a server is a command or a url", Expected: "one of the two",
			Hint: "command: [program, argument] runs it in the run's sandbox; url: https://... asks it over HTTP"})
	case s.URL != "" && s.Env != nil || s.URL == "" && s.Headers != nil:
		p.failAt(n, Error{Code: CodeConflict, Message: "env belongs to a command and headers to a url"})
	case s.URL != "":
		p.address(n.child("url"), len(s.Headers) > 0)
	}
	return s
}

// named reads a mapping of names to texts; check looks at each pair.
func (p *parsing) named(n *node, check func(pair)) map[string]string {
	if n == nil || n.kind != isMap {
		return nil
	}
	out := map[string]string{}
	for _, pr := range n.pairs {
		check(pr)
		out[pr.key] = pr.value.str()
	}
	return out
}

// env values stand in events, so what must not be seen is named and not written.
func (p *parsing) env(pr pair) {
	v := pr.value.str()
	switch {
	case !envRule.MatchString(pr.key):
		p.fail(&Error{Code: CodeValue, Line: pr.line, Path: pr.value.path, Message: "the key is not the name of a variable",
			Expected: "A-Z a-z 0-9 and _", Actual: shown(pr.key)})
	case strings.HasPrefix(v, "secret:") && !secret.IsRef(v):
		p.fail(&Error{Code: CodeValue, Line: pr.line, Path: pr.value.path, Message: "the value does not name a secret",
			Expected: "secret:NAME"})
	case secret.Named(pr.key) && !secret.IsRef(v):
		p.fail(&Error{Code: CodeValue, Line: pr.line, Path: pr.value.path, Message: "a secret must not be in the file",
			Expected: "secret:NAME", Hint: "put the value into the file NAME of the folder that INSPAN_MCP_SECRETS names for the toolrunner"})
	}
}

func (p *parsing) header(pr pair) {
	switch {
	case !headerRule.MatchString(pr.key) || slices.Contains(takenHeaders, strings.ToLower(pr.key)):
		p.fail(&Error{Code: CodeValue, Line: pr.line, Path: pr.value.path, Message: "the key is not a header that may be set",
			Actual: shown(pr.key)})
	case !secret.IsRef(pr.value.str()):
		p.fail(&Error{Code: CodeValue, Line: pr.line, Path: pr.value.path,
			Message: "the value of a header must not be in the file", Expected: "secret:NAME",
			Hint: `put the whole value, such as "Bearer ...", into the file NAME of the folder that INSPAN_MCP_SECRETS names for the toolrunner`})
	}
}

// address checks where requests go. What goes out in the clear must stay on this machine where it carries a secret.
func (p *parsing) address(n *node, secrets bool) {
	u, err := url.Parse(n.str())
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "":
		p.failAt(n, Error{Code: CodeValue, Message: "the value is not an address of a server",
			Expected: "http:// or https:// with a host and without a user", Hint: "a password goes into headers as secret:NAME"})
	case u.Scheme == "http" && secrets && !loopback(u.Hostname()):
		p.failAt(n, Error{Code: CodeValue, Message: "the secret of a header would be sent unencrypted", Expected: "https://"})
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// effectOf is the operator's word on a tool: an exact name before all globs, then the first glob that fits, else once.
func effectOf(s events.MCPServer, tool string) string {
	for _, exact := range []bool{true, false} {
		for _, e := range s.Effects {
			if e.Tool == tool || !exact && fits(e.Tool, tool) {
				return e.Effect
			}
		}
	}
	return "once"
}

// wants reports whether a list of tools names a server's tool, by its name or by a glob.
func wants(tools []string, server, tool string) bool {
	return slices.ContainsFunc(tools, func(t string) bool {
		pattern, ok := strings.CutPrefix(t, mcpPrefix+server+"/")
		if !ok {
			return false
		}
		return fits(pattern, tool)
	})
}

// fits matches a tool's name with a glob; names are no paths, so that a star stands for a slash too.
func fits(pattern, tool string) bool {
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", "_"), strings.ReplaceAll(tool, "/", "_"))
	return ok && err == nil
}

func tooLarge(what string, most, got int) error {
	return &Error{Code: CodeLimit, Message: what, Expected: fmt.Sprintf("at most %d", most), Actual: fmt.Sprint(got)}
}
