// Command guest is a program that is the agent of a runtime, for tests: it speaks the protocol of the driver that its
// environment names and does what the lines of its prompt say that begin with "!".
package main

import (
	"fmt"
	"os"

	"github.com/inspan/inspan/internal/runtime/runtimetest"
)

func main() {
	if !runtimetest.Main() {
		fmt.Fprintln(os.Stderr, "guest: set INSPAN_FAKE_AGENT=acp or claude, and INSPAN_FAKE_SESSIONS to a folder; see internal/runtime/runtimetest")
		os.Exit(2)
	}
}
