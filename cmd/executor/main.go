// Command executor runs the executor of a station against a NATS server. It is configured by INSPAN_ variables; see
// docs/config.md.
package main

import (
	"os"

	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/events"
)

func main() { os.Exit(station.Main(events.Executor)) }
