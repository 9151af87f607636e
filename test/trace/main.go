// Command trace says which test proves which requirement.
//
// Promises: a requirement counts as proven only by tests that ran and passed in the stream it reads; a test that was
// skipped or never ended proves nothing. One failed test makes all requirements that it names failed. A requirement of
// several clauses is proven when each is; a test that names the whole proves none of them. What only tests against a
// double show is marked. An id that tests name and the list does not have is reported.
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
)

//go:embed ids.txt
var ids string

//go:embed doubles.txt
var doubles string

func main() {
	input := flag.String("input", "", "read this saved output of `go test -json` instead of running the tests")
	strict := flag.Bool("strict", false, "end with 1 where a requirement is missing or failed")
	flag.Parse()
	ok, err := trace(*input, os.Stdout)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "trace:", err)
		os.Exit(2)
	case *strict && !ok:
		os.Exit(1)
	}
}

// trace prints the table and reports whether all requirements are proven.
func trace(input string, out io.Writer) (bool, error) {
	wanted, err := Parse(ids)
	if err != nil {
		return false, fmt.Errorf("ids.txt: %w", err)
	}
	var results *Results
	if input == "" {
		results, err = run()
	} else {
		results, err = saved(input)
	}
	if err != nil {
		return false, err
	}
	return Print(out, wanted, ParseDoubles(doubles), results), nil
}

func saved(name string) (*Results, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	results, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return results, nil
}

// run runs all tests once. That some fail is part of the answer, not an error.
func run() (*Results, error) {
	cmd := exec.Command("go", "test", "-json", "-timeout", "30m", "./...")
	cmd.Stderr = os.Stderr
	stream, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("run the tests: %w", err)
	}
	results, readErr := Read(stream)
	_, drained := io.Copy(io.Discard, stream)
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	if err := errors.Join(readErr, drained, err); err != nil {
		return nil, fmt.Errorf("run the tests: %w", err)
	}
	return results, nil
}
