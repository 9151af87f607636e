// Command inspan-within is the small helper that sandboxes put into containers: it starts in a tenth of the time and memory
// of inspan, which can be it too. It is not for people.
package main

import (
	"fmt"
	"os"

	"github.com/inspan/inspan/internal/sandbox/docker/within"
)

func main() {
	if code, asked := within.Main(); asked {
		os.Exit(code)
	}
	fmt.Fprintln(os.Stderr, "inspan-within is put into containers by sandboxes of mode docker; it does nothing by itself")
	os.Exit(2)
}
