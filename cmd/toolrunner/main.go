// Command toolrunner runs the toolrunner of a station against a NATS server. It is configured by INSPAN_ variables; see
// docs/config.md.
package main

import (
	"os"

	"github.com/inspan/inspan/internal/program"
	"github.com/inspan/inspan/internal/sandbox/helper/standin"
	"github.com/inspan/inspan/internal/service/toolrunner"
)

func main() {
	if code, asked := standin.Main(); asked {
		os.Exit(code)
	}
	os.Exit(program.Main(toolrunner.Program()))
}
