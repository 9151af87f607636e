// Command docgen writes the generated part of docs/, or with -check says what of it is not up to date.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/inspan/inspan/internal/docgen"
)

func main() {
	check := flag.Bool("check", false, "write nothing; end with 1 where something is not up to date")
	root := flag.String("root", ".", "folder of the module")
	out := flag.String("out", "docs", "folder of the docs")
	flag.Parse()
	if err := run(*root, *out, *check); err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}

func run(root, out string, check bool) error {
	for _, name := range docgen.Env() {
		if err := os.Unsetenv(name); err != nil {
			return fmt.Errorf("unset %s: %w", name, err)
		}
	}
	if check {
		return docgen.Check(root, out)
	}
	changed, err := docgen.Write(root, out)
	for _, name := range changed {
		fmt.Println(name)
	}
	return err
}
