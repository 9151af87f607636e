package docker

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/helper"
)

// connect makes the client. It says nothing to the engine yet.
func (b *Backend) connect() (*client.Client, error) {
	opts := []client.Opt{client.FromEnv}
	if b.cfg.Host != "" {
		opts = []client.Opt{client.WithHost(b.cfg.Host)}
	}
	c, err := client.New(opts...)
	if err != nil {
		return nil, fmt.Errorf("%w: the address of the container engine: %w", sandbox.ErrUnavailable, err)
	}
	return c, nil
}

// info asks the engine what it is, until it answered once.
func (b *Backend) info(ctx context.Context) (*system.Info, error) {
	b.mu.Lock()
	known := b.known
	b.mu.Unlock()
	if known != nil {
		return known, nil
	}
	c, err := b.client()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, engineWait)
	defer cancel()
	if _, err := c.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		return nil, absent(c, err)
	}
	got, err := c.Info(ctx, client.InfoOptions{})
	if err != nil {
		return nil, absent(c, err)
	}
	if got.Info.OSType != "" && got.Info.OSType != "linux" {
		return nil, fmt.Errorf("%w: the container engine runs %s containers, not linux", sandbox.ErrUnavailable,
			got.Info.OSType)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known = &got.Info
	return b.known, nil
}

func absent(c *client.Client, err error) error {
	return fmt.Errorf("%w: no container engine answers at %s: start it, or name it with INSPAN_DOCKER_HOST: %w",
		sandbox.ErrUnavailable, c.DaemonHost(), err)
}

// picture is what is known of an image.
type picture struct {
	id      string
	env     []string
	volumes []string
}

// image looks an image up, and gets it where that is allowed.
func (b *Backend) image(ctx context.Context, name string) (picture, error) {
	c, err := b.client()
	if err != nil {
		return picture{}, err
	}
	wait, cancel := context.WithTimeout(ctx, engineWait)
	defer cancel()
	got, err := c.ImageInspect(wait, name)
	if errdefs.IsNotFound(err) {
		if name == DefaultImage {
			return picture{}, fmt.Errorf("%w: the image %s is not on this machine: build it with make sandbox-image, or name another by sandbox.image in the agent file or INSPAN_DOCKER_IMAGE", sandbox.ErrUnavailable, name)
		}
		if !b.cfg.Pull {
			return picture{}, fmt.Errorf("%w: the image %s is not on this machine: docker pull %s, or set INSPAN_DOCKER_PULL=true", sandbox.ErrUnavailable, name, name)
		}
		if err := pull(ctx, c, name); err != nil {
			return picture{}, fmt.Errorf("%w: get the image %s: %w", sandbox.ErrUnavailable, name, err)
		}
		got, err = c.ImageInspect(ctx, name)
	}
	if err != nil {
		return picture{}, fmt.Errorf("%w: inspect the image %s: %w", sandbox.ErrUnavailable, name, err)
	}
	p := picture{id: got.ID}
	if got.Config != nil {
		p.env = got.Config.Env
		for path := range got.Config.Volumes {
			p.volumes = append(p.volumes, path)
		}
	}
	return p, nil
}

func pull(ctx context.Context, c *client.Client, name string) error {
	response, err := c.ImagePull(ctx, name, client.ImagePullOptions{})
	if err != nil {
		return err
	}
	return errors.Join(response.Wait(ctx), response.Close())
}

// user returns the user of commands as UID:GID.
func (b *Backend) user() (string, error) {
	if b.cfg.User == "" && os.Getuid() == 0 {
		return "", fmt.Errorf("%w: the toolrunner runs as root, and commands in containers would too: run it as another user, or set INSPAN_DOCKER_USER=UID:GID to a user that can write the workspaces (0:0 is root without capabilities)", sandbox.ErrUnavailable)
	}
	text := b.userText()
	uid, gid, both := strings.Cut(text, ":")
	_, err := strconv.ParseUint(uid, 10, 31)
	if both && err == nil {
		_, err = strconv.ParseUint(gid, 10, 31)
	}
	if !both || err != nil {
		return "", fmt.Errorf("%w: the user of containers is %q: want UID:GID as numbers", sandbox.ErrUnavailable, text)
	}
	return text, nil
}

func (b *Backend) userText() string {
	if b.cfg.User != "" {
		return b.cfg.User
	}
	return fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
}

// findHelper returns the path of the program that is put into containers. An image may have no libraries, so it must
// need none.
func (b *Backend) findHelper() (string, error) {
	path := b.cfg.Helper
	if path == "" {
		var err error
		if path, err = helper.Installed(); err != nil {
			path, err = os.Executable()
		}
		if err != nil {
			return "", fmt.Errorf("%w: the helper of containers: %w", sandbox.ErrUnavailable, err)
		}
	}
	file, err := elf.Open(path)
	if err != nil {
		return "", fmt.Errorf("%w: the helper of containers: %s: %w", sandbox.ErrUnavailable, path, err)
	}
	defer func() { _ = file.Close() }()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			return "", fmt.Errorf("%w: %s needs libraries that an image may not have, and so cannot be the helper of containers: build it with CGO_ENABLED=0, or name a static one with INSPAN_DOCKER_HELPER", sandbox.ErrUnavailable, path)
		}
	}
	return path, nil
}
