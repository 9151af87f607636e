//go:build wasip1

// Command wasmjs runs JavaScript in the wasm sandbox, where it is called js; see docs/sandbox-wasm.md.
package main

import (
	"context"
	"os"

	"github.com/inspan/inspan/internal/wasmbox/js"
)

func main() {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	os.Exit(js.Main(context.Background(), js.Call{Args: os.Args, In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Dir: dir}))
}
