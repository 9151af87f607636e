// Command hand is one of the five services with tools whose every effect is written down, for the fault programme.
//
// Promises: it is the service of cmd/ROLE but for its tools. A line is in the journal, synced, before the tool goes on:
// what is not in the journal was not done, whatever happens to the process.
package main

import (
	"fmt"
	"os"

	"github.com/inspan/inspan/internal/program"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/all"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/test/faults/effects"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: hand ROLE, with INSPAN_FAULTS_EFFECTS naming the folder of the journal")
		os.Exit(2)
	}
	dir := os.Getenv(effects.Dir)
	var tools []tool.Tool
	for _, class := range []tool.Effect{tool.Read, tool.Idempotent, tool.Reconcilable, tool.Once} {
		tools = append(tools, effects.New(dir, class))
	}
	os.Exit(program.Main(all.Program(events.Service(os.Args[1]), &service.Config{}, tools...)))
}
