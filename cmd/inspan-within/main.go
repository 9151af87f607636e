// Command inspan-within is the small helper of sandboxes: beside inspan or toolrunner it is started in their place, in
// a tenth of the time and memory. It is not for people.
package main

import (
	"fmt"
	"os"

	"github.com/inspan/inspan/internal/sandbox/helper/standin"
)

func main() {
	if code, asked := standin.Main(); asked {
		os.Exit(code)
	}
	fmt.Fprintln(os.Stderr, "inspan-within is started by the sandboxes of inspan and toolrunner; it does nothing by itself")
	os.Exit(2)
}
