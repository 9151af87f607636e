// Command gatekeeper runs the gatekeeper of a station against a NATS server. It is configured by INSPAN_ variables; see
// docs/config.md.
package main

import (
	"os"

	"github.com/inspan/inspan/internal/program"
	"github.com/inspan/inspan/internal/service/gatekeeper"
)

func main() { os.Exit(program.Main(gatekeeper.Program())) }
