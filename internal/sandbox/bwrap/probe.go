package bwrap

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
)

// probeText is the most text of bubblewrap's own complaint that is shown.
const probeText = 300

// Probe really starts /bin/true in a sandbox with a closed network.
func (b *Backend) Probe(ctx context.Context) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("%w: bubblewrap needs Linux, this is %s", sandbox.ErrUnavailable, runtime.GOOS)
	}
	t, err := local.Try(ctx, b.base, sandbox.Config{}, b.Open, "/bin/true")
	switch {
	case err != nil && !t.Opened:
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("%w: probe: %w", sandbox.ErrUnavailable, err)
	case err != nil:
		return missing(err)
	case t.Exit.Code != 0:
		return missing(fmt.Errorf("/bin/true ended with status %d: %s", t.Exit.Code, clip(t.Err)))
	}
	return nil
}

// knobs are the switches of a kernel that close user namespaces, and what an administrator does about them.
var knobs = [...]struct{ file, closed, fix string }{
	{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"},
	{"/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"},
	{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
		"sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for bwrap"},
}

// missing names the cause where the kernel tells it.
func missing(err error) error {
	for _, k := range knobs {
		if data, readErr := os.ReadFile(k.file); readErr == nil && strings.TrimSpace(string(data)) == k.closed {
			return fmt.Errorf("%w: user namespaces are disabled on this machine: %s: %w", sandbox.ErrUnavailable, k.fix, err)
		}
	}
	return fmt.Errorf("%w: bubblewrap cannot start here (in a container: allow unshare and mount in its seccomp profile): %w",
		sandbox.ErrUnavailable, err)
}

func clip(text string) string { return local.Clip(text, probeText) }
