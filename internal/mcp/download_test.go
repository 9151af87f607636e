package mcp_test

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/mcp"
)

func TestDownloads(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-12 commands that fetch a package before they run it are known, with the package and its arguments", func(t *testing.T) {
		t.Parallel()
		for command, want := range map[string]string{
			"npx -y @modelcontextprotocol/server-filesystem .": "npx|@modelcontextprotocol/server-filesystem||.",
			"/usr/bin/npx a@1.2.3 --flag":                      "npx|a@1.2.3||--flag",
			"npx --yes -p pkg tool x y":                        "npx|pkg|tool|x y",
			"uvx mcp-server-time --local-timezone UTC":         "uvx|mcp-server-time||--local-timezone UTC",
			"uvx --python 3.12 --from mcp==1.0 mcp run":        "uvx|mcp==1.0|mcp|run",
			"node /opt/server.js":                              "",
			"npx":                                              "",
			"npx -y":                                           "",
		} {
			d, ok := mcp.Downloads(strings.Fields(command))
			got := ""
			if ok {
				got = strings.Join([]string{d.Runner, d.Package, d.Program, strings.Join(d.Args, " ")}, "|")
			}
			if got != want || ok && d.Registry == "" {
				t.Errorf("%s: got %q, want %q", command, got, want)
			}
		}
	})
}
