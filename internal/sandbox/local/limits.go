package local

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
)

const (
	// diskEvery is how often the files of a sandbox with a disk limit are counted while a command runs; a count that
	// takes long is made less often, so that it never takes more than a tenth of the time.
	diskEvery = 50 * time.Millisecond
	diskShare = 10
)

// DiskCapability says how Box enforces Limits.Disk.
func DiskCapability() sandbox.Capability {
	return sandbox.Capability{Isolation: sandbox.LimitDisk, Enforced: true,
		How: "counted every 50 ms or more while a command runs, which is ended above the limit; removed files that are still open are not counted"}
}

// FileCapability is DiskCapability where a limit of the size of a single file (rlimit) is set besides.
func FileCapability() sandbox.Capability {
	c := DiskCapability()
	c.How += "; no single file exceeds it"
	return c
}

// limited bounds a command by the sandbox's lifetime and disk limit. stop must be called when the command has ended.
func (b *Sandbox) limited(ctx context.Context) (limited context.Context, stop func(), err error) {
	stop = func() {}
	if b.cfg.Limits.Wall > 0 {
		if !time.Now().Before(b.until) {
			return nil, nil, fmt.Errorf("sandbox %s: %w", b.cfg.ID, sandbox.ErrLifetime)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, b.until, sandbox.ErrLifetime)
		stop = cancel
	}
	if b.cfg.Limits.Disk <= 0 {
		return ctx, stop, nil
	}
	inner, cancel := context.WithCancelCause(ctx)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		b.watchDisk(inner, cancel)
	}()
	before := stop
	return inner, func() { cancel(nil); <-gone; before() }, nil
}

// watchDisk ends a command that makes the sandbox's files take more than their limit. A command that began above it
// and only makes them less may run.
func (b *Sandbox) watchDisk(ctx context.Context, end context.CancelCauseFunc) {
	most := max(b.cfg.Limits.Disk, b.diskUse(ctx))
	timer := time.NewTimer(diskEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		begin := time.Now()
		if b.diskUse(ctx) > most {
			end(fmt.Errorf("%w: %d bytes", sandbox.ErrDisk, b.cfg.Limits.Disk))
			return
		}
		timer.Reset(max(diskEvery, diskShare*time.Since(begin)))
	}
}

// diskUse counts the bytes that the workspace and the private directory take on disk.
func (b *Sandbox) diskUse(ctx context.Context) int64 {
	return DiskUse(ctx, []string{b.cfg.Workspace, b.private}, func(_ string, size int64) int64 { return size })
}

// DiskUse adds up what all below some directories, and they themselves, take on disk, as count has it of each. The
// second name of a file comes with the size 0.
func DiskUse(ctx context.Context, roots []string, count func(path string, size int64) int64) (total int64) {
	seen := make(map[[2]uint64]bool)
	for _, root := range roots {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, _ error) error {
			if d == nil {
				return nil // it went while we looked
			}
			if info, err := d.Info(); err == nil {
				size, id, linked := diskSize(info)
				if linked && seen[id] {
					size = 0
				}
				if linked {
					seen[id] = true
				}
				total += count(path, size)
			}
			return ctx.Err()
		})
	}
	return total
}
