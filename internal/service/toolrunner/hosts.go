package toolrunner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/topology"
)

// errManyHosts means that workspaces are local and more than one machine has toolrunners: nothing would keep two of
// them from working in one workspace at the same time, because local mode has no claims and no fences.
var errManyHosts = errors.New("INSPAN_WORKSPACE_MODE is local, but toolrunners run on more than one machine")

// hosts knows the toolrunners of a station.
type hosts struct {
	kv       kernel.KV
	leases   kernel.Leases
	instance string
	self     service.RunnerHost
}

// hosts is nil where the station has one process.
func (h *wiring) hosts(instance string) *hosts {
	if h.in.Ports.Trees == nil || h.in.Ports.Leases == nil {
		return nil
	}
	mode := h.cfg.WorkspaceMode
	if mode == "" {
		mode = service.WorkspaceLocal
	}
	machine := h.deps.Machine
	if machine == "" {
		machine = thisMachine()
	}
	return &hosts{kv: h.in.Ports.Trees, leases: h.in.Ports.Leases, instance: instance,
		self: service.RunnerHost{Machine: machine, Mode: mode, Since: time.Now().UTC(), SessionLogs: true,
			WorkspaceLogs: true}}
}

// thisMachine names this machine or, in a container, this container: two of them may be on different machines tomorrow.
func thisMachine() string {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return name
	}
	return name + " " + strings.TrimSpace(string(boot))
}

// during tells the others of this toolrunner while run runs. The lease of the instance is held before.
func (h *hosts) during(run service.Run) service.Run {
	if h == nil {
		return run
	}
	return func(ctx context.Context) error {
		if err := h.announce(ctx); ctx.Err() != nil {
			return nil //nolint:nilerr // it was stopped before it began
		} else if err != nil {
			return fmt.Errorf("announce this toolrunner to the others: %w", err)
		}
		err := run(ctx)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), topology.LeaseTerm)
		defer cancel()
		_ = h.kv.Delete(last, service.HostKeys+h.instance) // one that stays is believed only as long as the lease
		return err
	}
}

// announce writes the host record.
func (h *hosts) announce(ctx context.Context) error {
	b, err := json.Marshal(h.self)
	if err != nil {
		return err
	}
	return h.kv.Put(ctx, service.HostKeys+h.instance, b)
}

// alone is the check of local mode.
func (h *hosts) alone(ctx context.Context) error {
	if h.self.Mode != service.WorkspaceLocal {
		return nil
	}
	keys, err := h.kv.Keys(ctx, service.HostKeys)
	if err != nil {
		return err
	}
	for _, key := range keys {
		instance := strings.TrimPrefix(key, service.HostKeys)
		other, err := h.read(ctx, key)
		if err != nil || instance == h.instance || other.Machine == h.self.Machine {
			continue // one that is just gone; and one that cannot be read says nothing
		}
		alive, err := h.leases.Alive(ctx, instance)
		if err != nil {
			return err
		}
		if alive {
			return fmt.Errorf("%w: %w: %s runs on %s. Give all of them INSPAN_WORKSPACE_MODE=shared where their workspace root is one volume, or follow where each has its own; or stop the other", service.ErrHeld, errManyHosts, instance, other.Name())
		}
		if time.Since(other.Since) > topology.LeaseTerm { // it has had the time to take its lease
			_ = h.kv.Delete(ctx, key) // the next look tries again
		}
	}
	return nil
}

func (h *hosts) read(ctx context.Context, key string) (other service.RunnerHost, err error) {
	b, err := h.kv.Get(ctx, key)
	if err != nil {
		return other, err
	}
	return other, json.Unmarshal(b, &other)
}
