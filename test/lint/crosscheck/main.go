// Command crosscheck type-checks programs for a system that is not this one, with all that they import, from source:
// what a build for that system would refuse, for a tenth of its CPU. It knows no assembly and links nothing.
//
//	crosscheck darwin arm64 ./cmd/inspan
package main

import (
	"fmt"
	"os"

	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: crosscheck GOOS GOARCH PACKAGE...")
		os.Exit(2)
	}
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesSizes | packages.NeedModule,
		Env: append(os.Environ(), "GOOS="+os.Args[1], "GOARCH="+os.Args[2], "CGO_ENABLED=0"),
	}, os.Args[3:]...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "crosscheck:", err)
		os.Exit(1)
	}
	count := 0
	packages.Visit(loaded, func(*packages.Package) bool { count++; return true }, nil)
	if n := packages.PrintErrors(loaded); n > 0 || count < len(os.Args[3:]) {
		fmt.Fprintf(os.Stderr, "crosscheck: %d errors for %s/%s\n", n, os.Args[1], os.Args[2])
		os.Exit(1)
	}
	fmt.Printf("%d packages type-check for %s/%s\n", count, os.Args[1], os.Args[2])
}
