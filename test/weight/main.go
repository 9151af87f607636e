// Command weight measures what inspan costs before it does anything: its build, its size, its start and its memory at
// rest.
//
//	go run ./test/weight            print it
//	go run ./test/weight -cold      with a build of inspan from nothing (some minutes)
//	go run ./test/weight -suite     with make test, after its programs were compiled (some minutes)
//	go run ./test/weight -write     write it into docs/performance.md
//
// Builds and make test are compared with two builds of nats-server from nothing, one before and one behind.
//
// Promises: each number has a limit, in limits.go with the reason where one is generous; the command fails above it,
// and the tests of this package hold those that a busy machine does not change. A capability that needs more raises a
// limit there, and says why.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
)

func main() {
	if os.Getenv(nothing) != "" {
		return
	}
	cold := flag.Bool("cold", false, "build inspan and nats-server from nothing")
	suite := flag.Bool("suite", false, "run make test")
	write := flag.Bool("write", false, "write the section of docs/performance.md")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *cold, *suite, *write)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "weight:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, cold, suite, write bool) error {
	for name, value := range map[string]string{"CGO_ENABLED": "0", "GOFLAGS": "-trimpath"} { // as the Makefile builds
		if _, set := os.LookupEnv(name); !set {
			if err := os.Setenv(name, value); err != nil {
				return err
			}
		}
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "inspan-weight-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	w, err := measure(ctx, root, dir, cold, suite)
	return report(os.Stdout, w, err, func() error {
		if !write {
			return nil
		}
		return insert(filepath.Join(root, "docs", "performance.md"), w.section())
	})
}

// report prints what was measured, which took minutes, also where something failed behind it, and says what is above
// its limit. Only what was measured whole is written.
func report(out io.Writer, w weight, failed error, write func() error) error {
	fmt.Fprint(out, w.table())
	if failed != nil {
		return errors.Join(failed, w.above())
	}
	return errors.Join(write(), w.above())
}
