package cli

import (
	"context"
	"io"
)

// MainAlone is Main on a machine where no station is at the usual address: one that whoever runs the tests has there is
// none of theirs.
func MainAlone(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	return mainAt(ctx, "nats://127.0.0.1:1", args, in, out, errOut)
}
