package main

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the CPU time of a process so far, to the nanosecond: /proc has it in hundredths of a second, which are
// more than a step takes.
func cpuTime(pid int) (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED of <linux/posix-timers.h>, in the clock id of a process
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &at); err != nil { //nolint:gosec // a process id has 22 bits
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return time.Duration(at.Nano()), nil
}
