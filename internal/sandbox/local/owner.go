package local

import (
	"fmt"
	"os"
	"strings"
)

// BoxPrefix begins the names of everything that a sandbox makes outside of its workspace: directories, control groups.
const SandboxPrefix = "inspan-box-"

// ownName begins a name with whose it is, so that Reap can tell what no one owns any more.
func ownName() string { return SandboxPrefix + ownOwner() + "-" }

// ownerIn returns the owner that a name tells.
func ownerIn(name string) (owner string, ok bool) {
	rest, ok := strings.CutPrefix(name, SandboxPrefix)
	if !ok {
		return "", false
	}
	owner, _, ok = strings.Cut(rest, "-")
	return owner, ok
}

// parseOwner reads namespace, process and start time.
func parseOwner(owner string) (space string, pid int, start string, ok bool) {
	var s string
	n, err := fmt.Sscanf(strings.ReplaceAll(owner, ".", " "), "%s %d %s", &space, &pid, &s)
	return space, pid, s, err == nil && n == 3 && strings.Count(owner, ".") == 2
}

// Computer names this start of this computer, empty where it has no name.
func Computer() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
