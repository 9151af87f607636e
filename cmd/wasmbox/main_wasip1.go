// Command wasmbox is the toolbox of the wasm sandbox; see docs/sandbox-wasm.md. Built for another system it builds
// that.
package main

import (
	"context"
	"os"

	"github.com/inspan/inspan/internal/wasmbox"
)

func main() {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	os.Exit(wasmbox.Main(context.Background(), wasmbox.Call{Args: os.Args, In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Dir: dir,
		Env: os.Environ(), Host: wasmbox.System{}}))
}
