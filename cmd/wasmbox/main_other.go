//go:build !wasip1

// Command wasmbox builds the toolbox of the wasm sandbox: one WebAssembly program, and links to it by the names of the
// programs in it. It runs in the source tree of this module and needs the Go toolchain.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/inspan/inspan/internal/wasmbox/build"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: wasmbox DIR\n\nbuilds the toolbox of the wasm sandbox into DIR; go run ./cmd/wasmbox bin/wasm")
		os.Exit(2)
	}
	if err := build.Toolbox(ctx, ".", os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "wasmbox:", err)
		os.Exit(1)
	}
}
