package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/docker/within"
	"github.com/inspan/inspan/internal/sandbox/local"
)

// removedTick is how often is looked whether a container that is being removed is gone.
const removedTick = 20 * time.Millisecond

// box is a sandbox, whose container is started with its first command.
type instance struct {
	*local.Sandbox
	b     *Backend
	image picture
	user  string
	binds []bind

	mu      sync.Mutex
	live    *vessel // nil until there is a container; guarded by mu, as are the others
	started int
	lost    []string // containers that could not be removed

	list    sync.Mutex
	running map[*command]struct{} // guarded by list
}

var _ sandbox.Sandbox = (*instance)(nil)

// vessel is a container that was started.
type vessel struct {
	id    string
	conn  client.HijackedResponse
	shut  func() error  // closes the way out
	ended chan struct{} // closed when its first process has ended, or the engine
	first int           // handle on its first process, -1 where that is not seen here
}

func (v *vessel) alive() bool {
	select {
	case <-v.ended:
		return false
	default:
		return true
	}
}

// ready returns the container, which it starts where there is none that lives.
func (b *instance) ready(ctx context.Context) (*vessel, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.live != nil {
		if b.live.alive() {
			return b.live, nil
		}
		old := b.live
		b.live = nil
		if err := b.end(context.WithoutCancel(ctx), old); err != nil {
			return nil, err
		}
	}
	b.started++
	v, err := b.start(ctx, fmt.Sprintf("%s.%d", b.Name(), b.started))
	if err != nil {
		return nil, err
	}
	b.live = v
	return v, nil
}

// drop ends a container of which something is not as it should be; the next command gets another.
func (b *instance) drop(ctx context.Context, v *vessel) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.live != v {
		return nil // somebody else did
	}
	b.live = nil
	return b.end(context.WithoutCancel(ctx), v)
}

// end removes a container and all that runs in it; mu is held.
func (b *instance) end(ctx context.Context, v *vessel) error {
	ctx, cancel := context.WithTimeout(ctx, engineWait)
	defer cancel()
	c, err := b.b.client()
	if err != nil {
		return err
	}
	local.EndByHandle(v.first) // so that nothing runs on, also where no response from the engine
	err = remove(ctx, c, v.id)
	v.conn.Close() // whatever the engine says: its first process ends then
	<-v.ended
	if err != nil {
		b.b.left()
		b.lost = append(b.lost, v.id)
		err = left(v.id, err)
	}
	if v.first >= 0 {
		_ = unix.Close(v.first)
	}
	return errors.Join(err, v.shut())
}

func left(id string, err error) error {
	return fmt.Errorf("%w: container %.12s remains, and is removed when the engine answers again: %w", sandbox.ErrLost, id,
		err)
}

// again tries once more to remove what could not be removed.
func (b *instance) again(ctx context.Context) error {
	c, err := b.b.client()
	if err != nil || len(b.lost) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, engineWait)
	defer cancel()
	var still []string
	var failed []error
	for _, id := range b.lost {
		if err := remove(ctx, c, id); err != nil {
			still, failed = append(still, id), append(failed, left(id, err))
		}
	}
	b.lost = still
	return errors.Join(failed...)
}

// remove removes a container and waits until it is gone. One that is gone is no error.
func remove(ctx context.Context, c *client.Client, id string) error {
	_, err := c.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err == nil || errdefs.IsNotFound(err) {
		return nil
	}
	if !errdefs.IsConflict(err) {
		return err
	}
	// Somebody else removes it, the engine itself where its first process has ended.
	tick := time.NewTicker(removedTick)
	defer tick.Stop()
	for {
		if _, look := c.ContainerInspect(ctx, id, client.ContainerInspectOptions{}); errdefs.IsNotFound(look) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// start makes a container, starts it, and has it looked at from inside.
func (b *instance) start(ctx context.Context, name string) (v *vessel, err error) {
	c, err := b.b.client()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, engineWait)
	defer cancel()
	clear, done := context.WithTimeout(context.WithoutCancel(ctx), engineWait)
	defer done()
	egress, err := b.egress()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, egress.close())
		}
	}()
	made, err := c.ContainerCreate(clear, b.order(name)) // to its end, so that it is known whether there is one
	if err != nil {
		if clear.Err() != nil || client.IsErrConnectionFailed(err) {
			b.b.left()
		}
		return nil, fmt.Errorf("%w: the engine created no container: %w", sandbox.ErrNotStarted, err)
	}
	v = &vessel{id: made.ID, first: -1, ended: make(chan struct{}), shut: egress.close}
	att, err := c.ContainerAttach(wait, v.id, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true,
		Stderr: true})
	if err == nil {
		v.conn = att.HijackedResponse
		_, err = c.ContainerStart(wait, v.id, client.ContainerStartOptions{})
	}
	if err == nil {
		err = b.greet(wait, v, egress)
	}
	if err != nil {
		if v.conn.Conn != nil {
			v.conn.Close()
		}
		if failed := remove(clear, c, v.id); failed != nil {
			b.b.left()
			b.lost = append(b.lost, v.id)
			err = errors.Join(err, failed)
		}
		return nil, fmt.Errorf("%w: the container: %w", sandbox.ErrNotStarted, err)
	}
	return v, nil
}

// greet tells the first process what to look at, and reads what it found.
func (b *instance) greet(ctx context.Context, v *vessel, egress *entrance) error {
	stop := context.AfterFunc(ctx, func() { _ = v.conn.Conn.SetDeadline(time.Now()) })
	defer stop()
	from := part(v.conn.Reader)
	line := within.NewLine(from, v.conn.Conn)
	users, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return err
	}
	setup := within.Setup{Users: string(users), Egress: egress.listener != nil}
	for i := range b.binds {
		setup.Checks = append(setup.Checks, b.binds[i].check())
	}
	var said within.Ready
	if err = line.SendJSON(within.FrameOrder, setup); err == nil {
		err = line.Want(within.FrameBegun, &said)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("its first process sent no report: %w: %s", err, clip(from.other.Text()))
	case said.Fault != "":
		return fmt.Errorf("%w: %s", sandbox.ErrNotEnforced, clip(said.Fault))
	}
	if err := egress.open(); err != nil {
		return err
	}
	v.first = b.b.firstOf(ctx, v.id)
	go func() {
		defer close(v.ended)
		_, _ = io.Copy(io.Discard, from) // it says no more; this ends with it
	}()
	return nil
}

// firstOf returns a handle on a container's first process, -1 where this process does not see it: then the engine has
// another list of processes. With it a container can be ended when its engine is lost.
func (b *Backend) firstOf(ctx context.Context, id string) int {
	c, err := b.client()
	if err != nil {
		return -1
	}
	got, err := c.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil || got.Container.State == nil || got.Container.State.Pid <= 1 {
		return -1
	}
	pid := got.Container.State.Pid
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1
	}
	// The engine names the control group after the container: a number that means another process here has not that.
	group, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil || !strings.Contains(string(group), id) {
		_ = unix.Close(fd)
		return -1
	}
	return fd
}

// order says what a container is.
func (b *instance) order(name string) client.ContainerCreateOptions {
	cfg := b.Config()
	no := false
	host := &container.HostConfig{
		AutoRemove: true, ReadonlyRootfs: true, CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges:true"},
		NetworkMode: "none", IpcMode: container.IPCModePrivate, LogConfig: container.LogConfig{Type: "none"}, Init: &no,
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled}, Tmpfs: map[string]string{},
		Resources: container.Resources{Ulimits: []*container.Ulimit{{Name: "core"}}},
	}
	if cfg.Network {
		host.NetworkMode = container.NetworkMode(b.b.cfg.Network)
	}
	l := cfg.Limits
	host.NanoCPUs = int64(l.CPU * 1e9)
	host.Memory, host.MemorySwap = l.Memory, l.Memory
	if l.PIDs > 0 {
		most := int64(l.PIDs + helperThreads)
		host.PidsLimit = &most
	}
	if l.Disk > 0 {
		host.Ulimits = append(host.Ulimits, &container.Ulimit{Name: "fsize", Soft: l.Disk, Hard: l.Disk})
	}
	for i := range b.binds {
		m := &b.binds[i]
		host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeBind, Source: m.source, Target: m.target,
			ReadOnly: m.readOnly,
			// What is mounted below it stays outside: older engines would not make that read-only, and no one looks at
			// it.
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate, NonRecursive: true}})
	}
	for _, path := range b.image.volumes {
		if !b.covers(path) {
			host.Tmpfs[path] = "ro,size=4096" // what an image declares as a volume could be written, and is counted by no one
		}
	}
	return client.ContainerCreateOptions{Name: name, HostConfig: host, Config: &container.Config{
		Image: b.image.id, User: b.user, Hostname: "inspan", WorkingDir: "/", Labels: b.labels(),
		Entrypoint: []string{within.Path}, Cmd: []string{within.Flag, within.RoleInit},
		OpenStdin: true, StdinOnce: true, AttachStdin: true, AttachStdout: true, AttachStderr: true,
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}}
}

// covers reports whether something of the sandbox is mounted at a path.
func (b *instance) covers(path string) bool {
	for i := range b.binds {
		if strings.TrimSuffix(path, "/") == b.binds[i].target {
			return true
		}
	}
	return false
}

// release ends the container and closes what is mounted in it.
func (b *instance) release(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := b.again(ctx)
	if b.live != nil {
		left = errors.Join(left, b.end(ctx, b.live))
		b.live = nil
	}
	for i := range b.binds {
		if b.binds[i].file != nil {
			_ = b.binds[i].file.Close() // a handle without data; a second close only says so
		}
	}
	return left
}
