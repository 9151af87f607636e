// Command inspan runs a station on one machine and talks to stations anywhere; see inspan --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/inspan/inspan/internal/cli"
	"github.com/inspan/inspan/internal/egress/inside"
	"github.com/inspan/inspan/internal/git/wall"
	"github.com/inspan/inspan/internal/sandbox/docker/within"
	"github.com/inspan/inspan/internal/sandbox/launch"
)

func main() {
	if inside.Main() { // a sandbox started this program as its helper
		os.Exit(inside.Failed)
	}
	if code, asked := within.Main(); asked { // or a container, as its own
		os.Exit(code)
	}
	if code, asked := wall.Main(); asked { // or as the one that keeps git in its tree
		os.Exit(code)
	}
	if launch.Asked(os.Args) { // or as the launcher of a command
		os.Exit(launch.Main())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
