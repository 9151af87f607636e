// Command inspan runs a station on one machine and talks to stations anywhere; see inspan --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/inspan/inspan/internal/cli"
	"github.com/inspan/inspan/internal/sandbox/launch"
)

func main() {
	if launch.Asked(os.Args) {
		os.Exit(launch.Main())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
