package e2b

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
)

const (
	// tries is how often a request is made that the service refuses for now, maxWait the longest wait between two.
	tries   = 5
	maxWait = 30 * time.Second
	// callWait bounds one request to the API.
	callWait = time.Minute
	// maxAnswer is the most bytes of an answer of the API, maxWord of an error text of it.
	maxAnswer = 16 << 20
	maxWord   = 300
	// maxPages is the most pages of a list.
	maxPages = 1000
)

// What is written on machines.
const (
	kindLabel    = "inspan"         // sandbox
	nameLabel    = "inspan-name"    // the sandbox's own name, which tells whose it is
	machineLabel = "inspan-machine" // the computer on which that is true
)

// api speaks the REST API of the service.
type api struct{ cfg Config }

// answer is a refusal of the API.
type answer struct {
	status int
	text   string
	after  time.Duration
}

// Error says what the service said, quoted.
func (a *answer) Error() string {
	return fmt.Sprintf("the service answers %d %.*q", a.status, maxWord, a.text)
}

// call makes a request until it is answered for good. One that is not safe to make twice is made again only where the
// service said that it did not begin.
func (a *api) call(ctx context.Context, method, path string, in, out any, safe bool) (http.Header, error) {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return nil, fmt.Errorf("%s %s: %w", method, path, err)
		}
	}
	for try := 1; ; try++ {
		header, err := a.once(ctx, method, path, body, out)
		if err == nil {
			return header, nil
		}
		wait, again := a.again(err, safe)
		if !again || try == tries || ctx.Err() != nil {
			return nil, fmt.Errorf("%s: %w", method+" "+path, named(err))
		}
		timer := time.NewTimer(min(wait<<(try-1), maxWait))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("%s %s: %w: %w", method, path, ctx.Err(), named(err))
		}
	}
}

// again tells whether and when a request is made again.
func (a *api) again(err error, safe bool) (time.Duration, bool) {
	said, ok := errors.AsType[*answer](err)
	if !ok {
		return a.cfg.Retry, safe
	}
	wait := max(said.after, a.cfg.Retry)
	switch said.status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return wait, true
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		return wait, safe
	}
	return 0, false
}

// named gives an error of a request the name that callers and people look for.
func named(err error) error {
	said, ok := errors.AsType[*answer](err)
	switch {
	case !ok:
		return fmt.Errorf("%w can not be reached: %w", ErrService, err)
	case said.status == http.StatusUnauthorized, said.status == http.StatusForbidden:
		return fmt.Errorf("%w is refused: check INSPAN_E2B_API_KEY and INSPAN_E2B_URL: %w", ErrKey, err)
	case said.status == http.StatusTooManyRequests:
		return fmt.Errorf("%w: wait, or ask for a higher limit: %w", ErrBusy, err)
	case said.status >= 500 || said.status < 400:
		return fmt.Errorf("%w is at fault: %w", ErrService, err)
	}
	return err
}

func (a *api) once(ctx context.Context, method, path string, body []byte, out any) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, a.cfg.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-API-Key", a.cfg.Key.Reveal())
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := a.cfg.Client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, refusal(res)
	}
	if out != nil {
		if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(out); err != nil {
			return nil, fmt.Errorf("read the answer: %w", err)
		}
	}
	return res.Header, nil
}

// refusal reads an answer that says no.
func refusal(res *http.Response) *answer {
	data, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) // what was read of it will do
	var said struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(data, &said) != nil || said.Message == "" {
		said.Message = string(data)
	}
	text := strings.ToValidUTF8(said.Message, "\uFFFD")
	a := &answer{status: res.StatusCode, text: text[:min(len(text), maxWord)]}
	if n, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && n > 0 {
		a.after = min(time.Duration(n)*time.Second, maxWait)
	}
	return a
}

// made is a machine as the service tells of a new one.
type made struct {
	ID     string  `json:"sandboxID"`
	Token  string  `json:"envdAccessToken"`
	Domain *string `json:"domain"`
}

// wanted asks for a machine.
type wanted struct {
	Template string            `json:"templateID"`
	Timeout  int               `json:"timeout"`
	Secure   bool              `json:"secure"`
	Internet bool              `json:"allow_internet_access"`
	Labels   map[string]string `json:"metadata"`
}

var plainID = pattern.New(`^[A-Za-z0-9_-]{1,128}$`)

// create makes a machine that ends by itself after Lease unless it is extended.
func (a *api) create(ctx context.Context, name string, network bool) (*machine, error) {
	labels := map[string]string{kindLabel: "sandbox", nameLabel: name, machineLabel: computer()}
	var m made
	_, err := a.call(ctx, http.MethodPost, "/sandboxes",
		wanted{Template: a.cfg.Template, Timeout: int(Lease / time.Second), Secure: true, Internet: network, Labels: labels}, &m, false)
	if said, ok := errors.AsType[*answer](err); ok && said.status == http.StatusNotFound {
		return nil, fmt.Errorf("%w %q is not there: check INSPAN_E2B_TEMPLATE: %w", ErrTemplate, a.cfg.Template, err)
	}
	if err == nil && !plainID.MatchString(m.ID) {
		err = fmt.Errorf("%w names a machine %.*q", ErrService, maxWord, m.ID)
	}
	if err != nil {
		// It may have been made although nobody heard of it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callWait)
		defer cancel()
		if !errors.Is(err, ErrKey) {
			_, _ = a.end(ctx, func(l listed) bool { return l.Labels[nameLabel] == name }) // else it ends by itself after Lease
		}
		return nil, err
	}
	domain := ""
	if m.Domain != nil {
		domain = *m.Domain
	}
	at, err := a.cfg.address(m.ID, domain)
	machine := newMachine(a, m.ID, m.Token, at)
	if err != nil {
		return nil, errors.Join(err, machine.End(context.WithoutCancel(ctx)))
	}
	return machine, nil
}

// listed is a machine in a list.
type listed struct {
	ID     string            `json:"sandboxID"`
	Labels map[string]string `json:"metadata"`
	CPUs   int64             `json:"cpuCount"`
	Memory int64             `json:"memoryMB"`
	Disk   int64             `json:"diskSizeMB"`
}

// list returns all machines of this program, of any owner.
func (a *api) list(ctx context.Context) ([]listed, error) {
	query := url.Values{"metadata": {url.Values{kindLabel: {"sandbox"}}.Encode()}, "state": {"running,paused"}, "limit": {"100"}}
	var all []listed
	for range maxPages {
		var page []listed
		header, err := a.call(ctx, http.MethodGet, "/v2/sandboxes?"+query.Encode(), nil, &page, true)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		next := header.Get("X-Next-Token")
		if next == "" || len(page) == 0 {
			return all, nil
		}
		query.Set("nextToken", next)
	}
	return all, nil
}

// end ends the machines that are chosen, and returns how many.
func (a *api) end(ctx context.Context, choose func(listed) bool) (int, error) {
	all, err := a.list(ctx)
	if err != nil {
		return 0, err
	}
	n := 0
	var failed []error
	for _, l := range all {
		if l.Labels[kindLabel] != "sandbox" || !plainID.MatchString(l.ID) || !choose(l) {
			continue
		}
		if err := a.kill(ctx, l.ID); err != nil {
			failed = append(failed, err)
			continue
		}
		n++
	}
	return n, errors.Join(failed...)
}

// kill ends one machine; one that is not there is ended.
func (a *api) kill(ctx context.Context, id string) error {
	_, err := a.call(ctx, http.MethodDelete, "/sandboxes/"+id, nil, nil, true)
	if said, ok := errors.AsType[*answer](err); ok && said.status == http.StatusNotFound {
		return nil
	}
	return err
}

// extend lets a machine live for another Lease.
func (a *api) extend(ctx context.Context, id string) error {
	_, err := a.call(ctx, http.MethodPost, "/sandboxes/"+id+"/timeout", map[string]int{"timeout": int(Lease / time.Second)}, nil, true)
	return err
}

// fits returns ErrNotEnforced where a machine is larger than a limit.
func (a *api) fits(ctx context.Context, id string, l sandbox.Limits) error {
	if l.CPU == 0 && l.Memory == 0 && l.Disk == 0 {
		return nil
	}
	var m listed
	if _, err := a.call(ctx, http.MethodGet, "/sandboxes/"+id, nil, &m, true); err != nil {
		return err
	}
	var failed []error
	for _, one := range []struct {
		wall        sandbox.Wall
		limit, size float64
	}{{sandbox.LimitCPU, l.CPU, float64(m.CPUs)}, {sandbox.LimitMemory, float64(l.Memory), float64(m.Memory << 20)}, {sandbox.LimitDisk, float64(l.Disk), float64(m.Disk << 20)}} {
		if one.limit > 0 && (one.size <= 0 || one.size > one.limit) {
			failed = append(failed, fmt.Errorf("sandbox mode e2b: %w: %s: the template %q has %.0f, the limit is %v: choose a smaller template or a larger limit",
				sandbox.ErrNotEnforced, one.wall, a.cfg.Template, one.size, one.limit))
		}
	}
	return errors.Join(failed...)
}

// Reap ends the machines that toolrunners of this computer left which are gone, and returns how many. Those of living ones
// and of other computers are left alone. Without a key there is nothing to reap.
func (b *Backend) Reap(ctx context.Context) (int, error) {
	here := computer()
	if b.api.cfg.Key.Reveal() == "" || here == "" {
		return 0, nil
	}
	n, err := b.api.end(ctx, func(l listed) bool { return l.Labels[machineLabel] == here && local.Abandoned(l.Labels[nameLabel]) })
	if err != nil {
		return n, fmt.Errorf("end what lost toolrunners left at E2B: %w", err)
	}
	return n, nil
}

// computer names this start of this computer, empty where it has no name.
func computer() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
