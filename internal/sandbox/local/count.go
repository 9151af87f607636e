package local

import "context"

// DiskUse counts the bytes that the workspace and the private directory take on disk, each file once, for backends that
// bound writes themselves.
func (b *Box) DiskUse(ctx context.Context) int64 { return b.diskUse(ctx) }

// Ended is the error of a command that was ended with its context, for backends whose commands are no processes.
func Ended(ctx context.Context, p Process) error { return ended(ctx, p) }
