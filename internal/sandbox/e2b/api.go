package e2b

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
	"github.com/inspan/inspan/internal/sandbox/rest"
)

const (
	// maxWait is the longest wait between two tries of a request, callWait bounds one.
	maxWait  = 30 * time.Second
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
type api struct {
	cfg  Config
	rest rest.Client
}

func newAPI(cfg Config) *api {
	return &api{cfg, rest.Client{HTTP: cfg.Client, URL: cfg.URL, Who: "the service", Retry: cfg.Retry, MaxWait: maxWait,
		CallWait: callWait, MaxAnswer: maxAnswer,
		Authorize: func(h http.Header) error {
			h.Set("X-API-Key", cfg.Key.Reveal())
			return nil
		}, Named: named}}
}

// named gives an error of a request the name that callers and people look for.
func named(err error) error {
	said, ok := errors.AsType[*rest.Refusal](err)
	switch {
	case !ok:
		return fmt.Errorf("%w cannot be reached: %w", ErrService, err)
	case said.Status == http.StatusUnauthorized, said.Status == http.StatusForbidden:
		return fmt.Errorf("%w refused the request: check INSPAN_E2B_API_KEY and INSPAN_E2B_URL: %w", ErrKey, err)
	case said.Status == http.StatusTooManyRequests:
		return fmt.Errorf("%w: wait, or request a higher limit: %w", ErrBusy, err)
	case said.Status >= 500 || said.Status < 400:
		return fmt.Errorf("%w has an internal error: %w", ErrService, err)
	}
	return err
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
	labels := map[string]string{kindLabel: "sandbox", nameLabel: name, machineLabel: local.Computer()}
	var m made
	_, err := a.rest.Call(ctx, http.MethodPost, "/sandboxes",
		wanted{Template: a.cfg.Template, Timeout: int(Lease / time.Second), Secure: true, Internet: network, Labels: labels},
		&m, false)
	if rest.Missing(err) {
		return nil, fmt.Errorf("%w %q does not exist: check INSPAN_E2B_TEMPLATE: %w", ErrTemplate, a.cfg.Template, err)
	}
	if err == nil && !plainID.MatchString(m.ID) {
		err = fmt.Errorf("%w returned an invalid machine id %.*q", ErrService, maxWord, m.ID)
	}
	if err != nil {
		// It may have been made although no answer said so.
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
	query := url.Values{"metadata": {url.Values{kindLabel: {"sandbox"}}.Encode()}, "state": {"running,paused"},
		"limit": {"100"}}
	var all []listed
	for range maxPages {
		var page []listed
		header, err := a.rest.Call(ctx, http.MethodGet, "/v2/sandboxes?"+query.Encode(), nil, &page, true)
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
	_, err := a.rest.Call(ctx, http.MethodDelete, "/sandboxes/"+id, nil, nil, true)
	if rest.Missing(err) {
		return nil
	}
	return err
}

// extend lets a machine live for another Lease.
func (a *api) extend(ctx context.Context, id string) error {
	_, err := a.rest.Call(ctx, http.MethodPost, "/sandboxes/"+id+"/timeout",
		map[string]int{"timeout": int(Lease / time.Second)}, nil, true)
	return err
}

// fits returns ErrNotEnforced where a machine is larger than a limit.
func (a *api) fits(ctx context.Context, id string, l sandbox.Limits) error {
	if l.CPU == 0 && l.Memory == 0 && l.Disk == 0 {
		return nil
	}
	var m listed
	if _, err := a.rest.Call(ctx, http.MethodGet, "/sandboxes/"+id, nil, &m, true); err != nil {
		return err
	}
	var failed []error
	for _, one := range []struct {
		isolation   sandbox.Isolation
		limit, size float64
	}{{sandbox.LimitCPU, l.CPU, float64(m.CPUs)}, {sandbox.LimitMemory, float64(l.Memory), float64(m.Memory << 20)},
		{sandbox.LimitDisk, float64(l.Disk), float64(m.Disk << 20)}} {
		if one.limit > 0 && (one.size <= 0 || one.size > one.limit) {
			failed = append(failed, fmt.Errorf("sandbox mode e2b: %w: %s: the template %q has %.0f, the limit is %v: choose a smaller template or a larger limit",
				sandbox.ErrNotEnforced, one.isolation, a.cfg.Template, one.size, one.limit))
		}
	}
	return errors.Join(failed...)
}

// Reap ends the machines that toolrunners of this computer left which are gone, and returns how many. Those of living
// ones and of other computers are left alone. Without a key there is nothing to reap.
func (b *Backend) Reap(ctx context.Context) (int, error) {
	here := local.Computer()
	if b.api.cfg.Key.Reveal() == "" || here == "" {
		return 0, nil
	}
	n, err := b.api.end(ctx, func(l listed) bool {
		return l.Labels[machineLabel] == here &&
			local.Abandoned(l.Labels[nameLabel])
	})
	if err != nil {
		return n, fmt.Errorf("end sandboxes that lost toolrunners left at E2B: %w", err)
	}
	return n, nil
}
