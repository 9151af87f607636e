package service

import (
	"runtime/debug"
	"strings"
)

// Version is the program's version in the form major.minor.patch that NATS micro services want; 0.1.0 where the build
// does not say.
func Version() string {
	if b, ok := debug.ReadBuildInfo(); ok {
		if v := strings.TrimPrefix(b.Main.Version, "v"); v != "" && v != "(devel)" {
			return v
		}
	}
	return "0.1.0"
}
