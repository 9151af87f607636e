// Command persister runs the persister of a station against a NATS server. It is configured by INSPAN_ variables; see
// docs/config.md.
package main

import (
	"os"

	"github.com/inspan/inspan/internal/program"
	"github.com/inspan/inspan/internal/service/persister"
)

func main() { os.Exit(program.Main(persister.Program())) }
