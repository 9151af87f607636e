package mcp

import (
	"path"
	"slices"
	"strings"
)

// Download is a package that a command fetches from a registry each time it starts a server, unless it finds it in a
// cache.
type Download struct {
	// Runner is npx or uvx, Package what it fetches, as the command names it, Program what it runs of that, empty for the
	// only one, and Args the arguments of the server.
	Runner, Package, Program string
	Args                     []string
	// Registry is where it comes from.
	Registry string
}

// valued are options of the runners that have a value.
var valued = []string{"-p", "--package", "--from", "--with", "--python", "-c", "--call", "--registry", "--index-url",
	"-w"}

// Downloads says what a command downloads; ok is false where it does not as far as is known.
func Downloads(command []string) (d Download, ok bool) {
	if len(command) == 0 {
		return d, false
	}
	args := command[1:]
	switch d.Runner = path.Base(command[0]); d.Runner {
	case "npx", "bunx":
		d.Registry = "the npm registry"
	case "uvx":
		d.Registry = "the Python package index"
	default:
		return Download{}, false
	}
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-p" || a == "--package" || a == "--from":
			if i++; i < len(args) {
				d.Package = args[i]
			}
		case slices.Contains(valued, a):
			i++
		case strings.HasPrefix(a, "-"):
		default:
			if d.Args = args[i+1:]; d.Package == "" {
				d.Package = a
			} else {
				d.Program = a
			}
			return d, true
		}
	}
	return d, d.Package != ""
}
