package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/docker/within"
	"github.com/inspan/inspan/internal/sandbox/local"
)

// goneTick is how often is looked whether a container that is being removed is gone.
const goneTick = 20 * time.Millisecond

// box is a sandbox, whose container is started with its first command.
type box struct {
	*local.Box
	b     *Backend
	image picture
	user  string
	binds []bind

	mu      sync.Mutex
	live    *vessel // nil until there is a container; guarded by mu, as is started
	started int

	list    sync.Mutex
	running map[*command]struct{} // guarded by list
}

var _ sandbox.Sandbox = (*box)(nil)

// vessel is a container that was started.
type vessel struct {
	id    string
	conn  client.HijackedResponse
	shut  func() error  // closes the way out
	ended chan struct{} // closed when its first process has ended, or the engine
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
func (b *box) ready(ctx context.Context) (*vessel, error) {
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
func (b *box) drop(ctx context.Context, v *vessel) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.live != v {
		return nil // somebody else did
	}
	b.live = nil
	return b.end(context.WithoutCancel(ctx), v)
}

// end removes a container and all that runs in it.
func (b *box) end(ctx context.Context, v *vessel) error {
	ctx, cancel := context.WithTimeout(ctx, engineWait)
	defer cancel()
	c, err := b.b.client()
	if err != nil {
		return err
	}
	err = remove(ctx, c, v.id)
	v.conn.Close() // whatever the engine says: its first process ends then
	<-v.ended
	if err != nil {
		b.b.left()
		err = fmt.Errorf("%w: container %s is left, and is removed when the engine answers again: %w", sandbox.ErrLost, v.id, err)
	}
	return errors.Join(err, v.shut())
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
	tick := time.NewTicker(goneTick)
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
func (b *box) start(ctx context.Context, name string) (v *vessel, err error) {
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
	door, err := b.door()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, door.close())
		}
	}()
	made, err := c.ContainerCreate(clear, b.order(name)) // to its end, so that it is known whether there is one
	if err != nil {
		if clear.Err() != nil || client.IsErrConnectionFailed(err) {
			b.b.left()
		}
		return nil, fmt.Errorf("%w: the engine makes no container: %w", sandbox.ErrNotStarted, err)
	}
	v = &vessel{id: made.ID, ended: make(chan struct{}), shut: door.close}
	att, err := c.ContainerAttach(wait, v.id, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err == nil {
		v.conn = att.HijackedResponse
		_, err = c.ContainerStart(wait, v.id, client.ContainerStartOptions{})
	}
	if err == nil {
		err = b.greet(wait, v, door)
	}
	if err != nil {
		if v.conn.Conn != nil {
			v.conn.Close()
		}
		if left := remove(clear, c, v.id); left != nil {
			b.b.left()
			err = errors.Join(err, left)
		}
		return nil, fmt.Errorf("%w: the container: %w", sandbox.ErrNotStarted, err)
	}
	return v, nil
}

// greet tells the first process what to look at, and hears what it found.
func (b *box) greet(ctx context.Context, v *vessel, door *entrance) error {
	stop := context.AfterFunc(ctx, func() { _ = v.conn.Conn.SetDeadline(time.Now()) })
	defer stop()
	from := &parted{r: v.conn.Reader}
	line := within.NewLine(from, v.conn.Conn)
	setup := within.Setup{Door: door.listener != nil}
	for i := range b.binds {
		setup.Checks = append(setup.Checks, b.binds[i].check())
	}
	var said within.Ready
	err := line.Tell(within.FrameOrder, setup)
	if err == nil {
		err = line.Want(within.FrameBegun, &said)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("its first process says nothing: %w: %s", err, clip(from.said()))
	case said.Fault != "":
		return fmt.Errorf("%w: %s", sandbox.ErrNotEnforced, clip(said.Fault))
	}
	if err := door.open(); err != nil {
		return err
	}
	go func() {
		defer close(v.ended)
		_, _ = io.Copy(io.Discard, from) // it says no more; this ends with it
	}()
	return nil
}

// order says what a container is.
func (b *box) order(name string) client.ContainerCreateOptions {
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
		host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeBind, Source: m.source, Target: m.target, ReadOnly: m.readOnly,
			// What is mounted below it stays outside: older engines would not make that read-only, and nobody looks at it.
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate, NonRecursive: true}})
	}
	for _, path := range b.image.volumes {
		if !b.covers(path) {
			host.Tmpfs[path] = "ro,size=4096" // what an image declares as a volume could be written, and is counted by nobody
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
func (b *box) covers(path string) bool {
	for i := range b.binds {
		if strings.TrimSuffix(path, "/") == b.binds[i].target {
			return true
		}
	}
	return false
}

// Destroy implements sandbox.Sandbox.
func (b *box) Destroy(ctx context.Context) error {
	if err := b.End(ctx); err != nil {
		return fmt.Errorf("destroy sandbox %s: %w", b.ID(), err)
	}
	b.mu.Lock()
	v := b.live
	b.live = nil
	for i := range b.binds {
		if b.binds[i].file != nil {
			_ = b.binds[i].file.Close() // a handle without data; a second close only says so
		}
	}
	b.mu.Unlock()
	var left error
	if v != nil {
		left = b.end(ctx, v)
	}
	return errors.Join(left, b.Box.Destroy(ctx))
}
