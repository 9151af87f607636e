// Command toolrunner runs the toolrunner of a station against a NATS server. It is configured by INSPAN_ variables; see
// docs/config.md.
package main

import (
	"os"

	"github.com/inspan/inspan/internal/egress/inside"
	"github.com/inspan/inspan/internal/git/wall"
	"github.com/inspan/inspan/internal/sandbox/docker/within"
	"github.com/inspan/inspan/internal/sandbox/launch"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/events"
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
	os.Exit(station.Main(events.Toolrunner))
}
