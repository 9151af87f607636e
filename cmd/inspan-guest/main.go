// Command inspan-guest is the first process and the agent of the virtual machines of sandboxes: /init of their first
// file system. It is not for people.
package main

import (
	"os"

	"github.com/inspan/inspan/internal/sandbox/microvm/guest"
)

func main() { os.Exit(guest.Main()) }
