package microvm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/sandbox/microvm/guest"
)

const (
	// askAgain is how often an engine that is not ready is asked again.
	askAgain = 5 * time.Millisecond
	// politeWait is how long a machine is given to end by itself.
	politeWait = 2 * time.Second
	// guestCID is the number of the machine on its vsock; 0, 1 and 2 are taken.
	guestCID = 3
)

// firecracker starts a machine under Firecracker: it is told over the socket of its API what the machine is made of.
func firecracker(ctx context.Context, program string, s spec) (*process, io.ReadWriteCloser, func(), error) {
	api, vsock := filepath.Join(s.dir, "api"), filepath.Join(s.dir, "vsock")
	cmd := exec.Command(program, "--api-sock", api, "--id", "inspan")
	cmd.Dir, cmd.Env = s.dir, []string{marker(s.name)}
	engine, err := run(cmd)
	if err != nil {
		return nil, nil, nil, err
	}
	c := &fcClient{engine: engine,
		http: &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", api)
		}}}}
	channel, err := c.start(ctx, s, vsock)
	if err != nil {
		c.http.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWait)
		defer cancel()
		ended := engine.end(ctx) // first: then all of its words are here
		return nil, nil, nil, errors.Join(fmt.Errorf("%w%s", err, engine.said()), ended)
	}
	return engine, channel, c.finish, nil
}

// fcClient speaks to one engine.
type fcClient struct {
	engine *process
	http   *http.Client
}

// What is told to the engine; see its published description of the API.
type (
	fcMachine struct {
		CPUs   int   `json:"vcpu_count"`
		Memory int64 `json:"mem_size_mib"`
	}
	fcBoot struct {
		Kernel string `json:"kernel_image_path"`
		Initrd string `json:"initrd_path,omitempty"`
		Args   string `json:"boot_args"`
	}
	fcDrive struct {
		ID       string `json:"drive_id"`
		Path     string `json:"path_on_host"`
		Root     bool   `json:"is_root_device"`
		ReadOnly bool   `json:"is_read_only"`
	}
	fcVsock struct {
		CID  int    `json:"guest_cid"`
		Path string `json:"uds_path"`
	}
	fcAction struct {
		Type string `json:"action_type"`
	}
)

// start says what the machine is, starts it, and waits for its agent.
func (c *fcClient) start(ctx context.Context, s spec, vsock string) (net.Conn, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	for _, word := range []struct {
		path string
		body any
	}{
		{"/machine-config", fcMachine{s.cpus, s.memory / mebi}},
		{"/boot-source", fcBoot{s.kernel, s.initrd, commandLine(guest.ChannelVsock, "reboot=k", "pci=off")}},
		{"/drives/root", fcDrive{"root", s.root, false, true}},
		{"/drives/box", fcDrive{"box", s.sandbox, false, false}},
		{"/drives/transit", fcDrive{"transit", s.transit, false, false}},
		{"/vsock", fcVsock{guestCID, vsock}},
		{"/actions", fcAction{"InstanceStart"}},
	} {
		if err := c.put(ctx, word.path, word.body); err != nil {
			return nil, err
		}
	}
	for {
		conn, err := c.connect(ctx, vsock)
		if err == nil {
			return conn, nil
		}
		if werr := c.wait(ctx); werr != nil {
			return nil, fmt.Errorf("reach the machine's agent: %w (%w)", werr, err)
		}
	}
}

// ready waits until the engine answers.
func (c *fcClient) ready(ctx context.Context) error {
	for {
		res, err := c.send(ctx, http.MethodGet, "/", nil)
		if err == nil {
			_ = res.Body.Close() // it was only asked
			if res.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(res.Status)
		}
		if werr := c.wait(ctx); werr != nil {
			return fmt.Errorf("reach the engine: %w (%w)", werr, err)
		}
	}
}

// wait waits a moment, and says where waiting is in vain.
func (c *fcClient) wait(ctx context.Context) error {
	again := time.NewTimer(askAgain)
	defer again.Stop()
	select {
	case <-again.C:
		return nil
	case <-c.engine.exited:
		return errors.New("the engine ended")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *fcClient) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	return c.http.Do(req)
}

// put tells the engine one thing.
func (c *fcClient) put(ctx context.Context, path string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	res, err := c.send(ctx, http.MethodPut, path, body)
	if err != nil {
		return fmt.Errorf("send %s to the engine: %w", path, err)
	}
	said, err := io.ReadAll(io.LimitReader(res.Body, maxConsole))
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return fmt.Errorf("send %s to the engine: %w", path, err)
	}
	if res.StatusCode == http.StatusNoContent {
		return nil
	}
	var fault struct {
		Message string `json:"fault_message"`
	}
	if json.Unmarshal(said, &fault) != nil || fault.Message == "" {
		fault.Message = string(said)
	}
	return fmt.Errorf("the engine refused %s: %s: %.500q", path, res.Status, fault.Message)
}

// connect asks for a connection to the agent: a line with its port, answered with a line that begins with OK.
func (c *fcClient) connect(ctx context.Context, vsock string) (_ net.Conn, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", vsock)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // which ends what waits
	defer func() {
		if !stop() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			_ = conn.Close() // it is of no use
		}
	}()
	if _, err := fmt.Fprintf(conn, "CONNECT %d\n", guest.VsockPort); err != nil {
		return nil, err
	}
	// Byte by byte: what follows the line is the agent's.
	var line []byte
	for one := []byte{0}; len(line) < 32 && one[0] != '\n'; line = append(line, one[0]) {
		if _, err := io.ReadFull(conn, one); err != nil {
			return nil, err
		}
	}
	if !strings.HasPrefix(string(line), "OK ") {
		return nil, fmt.Errorf("the vsock responded %q", line)
	}
	return conn, nil
}

// finish asks the machine to end by itself, and waits a moment for it.
func (c *fcClient) finish() {
	defer c.http.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), politeWait)
	defer cancel()
	if c.put(ctx, "/actions", fcAction{"SendCtrlAltDel"}) != nil {
		return // it is killed anyway
	}
	select {
	case <-c.engine.exited:
	case <-ctx.Done():
	}
}
