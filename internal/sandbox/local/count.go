package local

import "context"

// Ended is the error of a command that was ended with its context, for backends whose commands are no processes.
func Ended(ctx context.Context, p Process) error { return ended(ctx, p) }
