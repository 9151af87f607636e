package e2b

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inspan/inspan/internal/sandbox/mirror"
	"github.com/inspan/inspan/internal/sandbox/rest"
)

const (
	// envdPort is where the service of a machine listens.
	envdPort = 49983
	// administrator is the user of helpers.
	administrator = "root"
	// inputChunk is the most bytes of stdin in one request.
	inputChunk = 32 << 10
	// inputGrace is how long a Read of Stdin that is still blocked is waited for.
	inputGrace = 100 * time.Millisecond
)

// machine is one virtual machine.
type machine struct {
	api       *api
	id, token string
	at        string

	stop    context.CancelFunc
	alive   sync.WaitGroup // who extends its life
	missing atomic.Bool
}

var _ mirror.Remote = (*machine)(nil)

// newMachine extends the life of a machine until End.
func newMachine(a *api, id, token, at string) *machine {
	ctx, stop := context.WithCancel(context.Background())
	m := &machine{api: a, id: id, token: token, at: at, stop: stop}
	m.alive.Go(func() { m.keep(ctx) })
	return m
}

// keep extends the machine's life. One that could not be extended for a whole Lease ends.
func (m *machine) keep(ctx context.Context) {
	tick := time.NewTicker(Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := m.api.extend(ctx, m.id)
		if rest.Missing(err) {
			m.missing.Store(true)
			return
		}
	}
}

// End implements mirror.Remote.
func (m *machine) End(ctx context.Context) error {
	m.stop()
	m.alive.Wait()
	if err := m.api.kill(ctx, m.id); err != nil {
		return fmt.Errorf("end the machine: it expires after %v: %w", Lease, err)
	}
	return nil
}

// request makes a request to the machine.
func (m *machine) request(ctx context.Context, method, path string, body io.Reader, user string) (*http.Request,
	error) {
	if m.missing.Load() {
		return nil, ErrMissing
	}
	req, err := http.NewRequestWithContext(ctx, method, m.at+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("E2b-Sandbox-Id", m.id)
	req.Header.Set("E2b-Sandbox-Port", fmt.Sprint(envdPort))
	req.Header.Set("Accept-Encoding", "identity")
	if m.token != "" {
		req.Header.Set("X-Access-Token", m.token)
	}
	if user != "" {
		req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user+":")))
	}
	return req, nil
}

// do sends a request; what is not a success becomes an error.
func (m *machine) do(req *http.Request) (*http.Response, error) {
	res, err := m.api.cfg.Client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrService, err)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	said := m.api.rest.Refused(res)
	_ = res.Body.Close() // it was only read
	// The way to a machine that is not there answers 502 with this text; other faults of a gateway do not have it.
	if said.Status == http.StatusBadGateway && strings.Contains(said.Message, "not found") {
		m.missing.Store(true)
		return nil, fmt.Errorf("%w: %w", ErrMissing, said)
	}
	return nil, fmt.Errorf("the sandbox's machine: %w", said)
}

func files(path string) string { return "/files?" + url.Values{"path": {path}}.Encode() }

// Put implements mirror.Remote.
func (m *machine) Put(ctx context.Context, path string, body io.Reader) error {
	r, w := io.Pipe()
	form := multipart.NewWriter(w)
	var packing sync.WaitGroup
	packing.Go(func() {
		part, err := form.CreateFormFile("file", "file")
		if err == nil {
			_, err = io.Copy(part, body)
		}
		if err == nil {
			err = form.Close()
		}
		_ = w.CloseWithError(err) // which never fails
	})
	err := m.put(ctx, path, r, form.FormDataContentType())
	_ = r.CloseWithError(errors.New("the upload ended")) // which never fails
	if c, ok := body.(io.Closer); ok && err != nil {
		_ = c.Close() // so that who writes it ends too
	}
	packing.Wait()
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	return nil
}

func (m *machine) put(ctx context.Context, path string, body io.Reader, kind string) error {
	req, err := m.request(ctx, http.MethodPost, files(path), body, "")
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", kind)
	res, err := m.do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer))
	return errors.Join(err, res.Body.Close())
}

// Get implements mirror.Remote.
func (m *machine) Get(ctx context.Context, path string) (io.ReadCloser, error) {
	req, err := m.request(ctx, http.MethodGet, files(path), nil, "")
	if err != nil {
		return nil, err
	}
	res, err := m.do(req)
	if err != nil {
		return nil, fmt.Errorf("download: %w", err)
	}
	return res.Body, nil
}
