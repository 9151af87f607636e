package app

import (
	"io"
	"os"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
)

// ReadPlan reads the file of a plan; "-" is standard input.
func ReadPlan(file string, in io.Reader) (*events.TaskPlan, error) {
	var b []byte
	var err error
	if file == "-" {
		b, err = io.ReadAll(io.LimitReader(in, maxPlan))
	} else {
		b, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, Usage("--plan: %w", err)
	}
	p := &events.TaskPlan{}
	if err := ce.Strict(b, p); err != nil {
		return nil, Usage("--plan %s: %w", file, err)
	}
	return p, nil
}

// maxPlan bounds a plan on standard input, in bytes; a task cannot be larger anyway.
const maxPlan = 1 << 20
