package mcp

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/events"
)

// in is a sandbox of which only the mode is known.
type in struct {
	sandbox.Sandbox
	mode sandbox.Mode
}

func (i in) Mode() sandbox.Mode { return i.mode }

func TestBlocked(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-12 a command that would download without a network is refused before it is run, with what to do", func(t *testing.T) {
		t.Parallel()
		npx := events.MCPServer{Name: "files", Command: []string{"npx", "-y", "server@1"}}
		for name, c := range map[string]struct {
			server events.MCPServer
			want   events.Sandbox
			mode   sandbox.Mode
			pinned bool
			says   string
		}{
			"closed":           {npx, events.Sandbox{}, sandbox.Bwrap, false, "has no network: npx cannot download server@1 from the npm registry. Install it once, at one version: add it with --install"},
			"closed, and here": {npx, events.Sandbox{}, sandbox.Bwrap, true, "inspan mcp install files --agent coder"},
			"some hosts":       {npx, events.Sandbox{AllowedHosts: []string{"a.example"}}, sandbox.Bwrap, false, "in runs only"},
			"open":             {npx, events.Sandbox{Network: true}, sandbox.Bwrap, false, ""},
			"no sandbox":       {npx, events.Sandbox{}, sandbox.Host, false, ""},
			"installed":        {events.MCPServer{Command: []string{"node", "server.js"}}, events.Sandbox{}, sandbox.Bwrap, false, ""},
		} {
			to := target{agent: "coder", found: events.Agent{Name: "coder", Sandbox: c.want}}
			if c.pinned {
				to.pins.Servers = map[string]agentfile.ServerPins{"files": {}}
			}
			err := to.blocked(c.server, in{mode: c.mode})
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: got %v, want %q", name, err, c.says)
			}
		}
	})
}

func TestProgramOfPackage(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-12 the program of a package is the one that npx would take, and never outside of it", func(t *testing.T) {
		t.Parallel()
		for bin, want := range map[string]string{
			`"dist/index.js"`:                     filepath.Join("dist", "index.js"),
			`{"x":"x.js"}`:                        "x.js",
			`{"x":"x.js","server":"s.js"}`:        "s.js",
			`{"x":"x.js","y":"y.js"}`:             "",
			`"../../outside.js"`:                  "",
			`{"server":"/etc/passwd"}`:            "",
			`null`:                                "",
			`{"x":"x.js","y":"y.js","named":"n"}`: "",
		} {
			got, err := npmPackage{Bin: json.RawMessage(bin)}.program("@scope/server", "")
			if got != want || (err == nil) != (want != "") {
				t.Errorf("%s: got %q, %v, want %q", bin, got, err, want)
			}
		}
	})
}
