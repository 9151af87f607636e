// Command inspan runs a station on one machine and talks to stations anywhere; see inspan --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/inspan/inspan/internal/cli"
	"github.com/inspan/inspan/internal/memory"
	"github.com/inspan/inspan/internal/sandbox/helper/standin"
)

func main() {
	if code, asked := standin.Main(); asked {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	go memory.Pace(ctx)
	code := cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
