//go:build !linux

package wasm

import "time"

// threadTime is not known here.
func threadTime() (user, system time.Duration) { return 0, 0 }
