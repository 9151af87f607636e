package kubernetes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
	"github.com/inspan/inspan/internal/sandbox/rest"
)

// ErrClaim means that a claim was not granted, or that the pod which it got cannot be used.
var ErrClaim = fmt.Errorf("%w: the claim", sandbox.ErrUnavailable)

// What is written on claims, and read from what they get.
const (
	claimKind    = "SandboxClaim"
	claimGroup   = "extensions.agents.x-k8s.io"
	claimVersion = claimGroup + "/v1beta1"
	// claimNetwork stands for networkLabel on the pods of claims: the controller of agent-sandbox takes labels from
	// claims in this domain alone, unless it is told of others.
	claimNetwork = "inspan.sandbox.users.io/network"
)

// claim is what of a SandboxClaim is written and read.
type claim struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Metadata   metadata    `json:"metadata"`
	Spec       claimSpec   `json:"spec"`
	Status     claimStatus `json:"status,omitzero"`
}

type claimSpec struct {
	Pool      named     `json:"warmPoolRef"`
	Lifecycle lifecycle `json:"lifecycle"`
	Pod       podLabels `json:"additionalPodMetadata"`
}

type named struct {
	Name string `json:"name"`
}

type lifecycle struct {
	Shutdown time.Time `json:"shutdownTime"`
	Policy   string    `json:"shutdownPolicy"`
}

type podLabels struct {
	Labels map[string]string `json:"labels"`
}

type claimStatus struct {
	Conditions []condition `json:"conditions"`
	Sandbox    named       `json:"sandbox"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// is reports whether a condition is true.
func (s claimStatus) is(what string) bool {
	return slices.ContainsFunc(s.Conditions, func(c condition) bool { return c.Type == what && c.Status == "True" })
}

// claims is the path of the claims, or of one.
func (c *cluster) claims(name string) string {
	at := "/apis/" + claimVersion + "/namespaces/" + url.PathEscape(c.cfg.Namespace) + "/sandboxclaims"
	if name != "" {
		at += "/" + url.PathEscape(name)
	}
	return at
}

// claimed gets a pod by a claim on the warm pool, and waits until commands can run in it.
func (c *cluster) claimed(ctx context.Context, name string, cfg sandbox.Config) (*machine, error) {
	network := networkOf(cfg)
	want := claim{APIVersion: claimVersion, Kind: claimKind,
		Metadata: c.owned(name, map[string]string{networkLabel: network}),
		Spec: claimSpec{Pool: named{c.cfg.WarmPool}, Pod: podLabels{map[string]string{claimNetwork: network}},
			Lifecycle: lifecycle{Shutdown: time.Now().Add(c.life(cfg)).UTC().Truncate(time.Second), Policy: "DeleteForeground"}}}
	m := &machine{cluster: c, claim: want.Metadata.Name, disk: cfg.Limits.Disk}
	err := c.call(ctx, http.MethodPost, c.claims(""), want, nil)
	if rest.Missing(err) {
		err = fmt.Errorf("%w: the cluster has no %s of %s: install agent-sandbox with its extensions, or set INSPAN_KUBERNETES_IMAGE instead of INSPAN_KUBERNETES_WARM_POOL", err, claimKind, claimVersion)
	}
	if err == nil {
		err = c.granted(ctx, m, cfg)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callWait)
		defer cancel()
		return nil, errors.Join(err, c.discard(ctx, m, err))
	}
	return m, nil
}

// granted waits until a claim has a pod that is ready, and looks whether it may be used.
func (c *cluster) granted(ctx context.Context, m *machine, cfg sandbox.Config) error {
	late := time.NewTimer(c.cfg.StartWait)
	defer late.Stop()
	tick := time.NewTicker(c.cfg.Poll)
	defer tick.Stop()
	for {
		var got claim
		if err := c.call(ctx, http.MethodGet, c.claims(m.claim), nil, &got); err != nil {
			return err
		}
		why := speaks(got.Status.Conditions)
		switch {
		case got.Status.is("Finished"):
			return fmt.Errorf("%w on pool %q has ended: %s", ErrClaim, c.cfg.WarmPool, why)
		case got.Status.is("Ready"):
			p, err := c.ofSandbox(ctx, got.Status.Sandbox.Name)
			if err != nil {
				return err
			}
			// The labels of a pod that was warm come a little later than the claim.
			if p != nil && p.Metadata.Labels[claimNetwork] == networkOf(cfg) {
				m.name, m.sandbox = p.Metadata.Name, p.Spec.Containers[0].Name
				return p.suits(cfg)
			}
			why = fmt.Sprintf("the claim is ready, but sandbox %.80q has no pod of its name with the label %s=%s",
				got.Status.Sandbox.Name, claimNetwork, networkOf(cfg))
		}
		select {
		case <-tick.C:
		case <-late.C:
			return fmt.Errorf("%w on pool %q is not granted after %v: %s: check the SandboxWarmPool and its template in namespace %s", ErrClaim, c.cfg.WarmPool, c.cfg.StartWait, why, c.cfg.Namespace)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// speaks is what a cluster says in conditions, quoted.
func speaks(all []condition) string {
	said := []string{}
	for _, c := range all[:min(len(all), 8)] {
		said = append(said, fmt.Sprintf("%.40q is %.10q: %.60q %.*q", c.Type, c.Status, c.Reason, maxWord, c.Message))
	}
	if len(said) == 0 {
		return "it has no status: check that the controller of agent-sandbox runs with its extensions"
	}
	return strings.Join(said, ", ")
}

// ofSandbox is the pod of a Sandbox, which has its name; nil where there is none, or one of somebody else.
func (c *cluster) ofSandbox(ctx context.Context, name string) (*takenPod, error) {
	if name == "" {
		return nil, nil
	}
	var p takenPod
	err := c.call(ctx, http.MethodGet, c.pods(name), nil, &p)
	if rest.Missing(err) {
		return nil, nil
	}
	mine := slices.ContainsFunc(p.Metadata.Owners, func(o owner) bool {
		return o.Kind == "Sandbox" && o.Name == name &&
			o.Controller
	})
	if err != nil || !mine || len(p.Spec.Containers) == 0 {
		return nil, err
	}
	return &p, nil
}

// unclaim deletes a claim and returns when it is gone, which is when its pod is: the claim waits for it.
func (c *cluster) unclaim(ctx context.Context, name string) error {
	return c.deleteAndWait(ctx, "claim "+name, c.claims(name), "propagationPolicy=Foreground")
}

// reapClaims deletes the claims of lost toolrunners of this computer, and returns how many.
func (c *cluster) reapClaims(ctx context.Context) (int, error) {
	all, err := list[claim](ctx, c, c.claims(""), kindLabel+"=sandbox")
	if err != nil {
		return 0, fmt.Errorf("delete claims of lost toolrunners in the cluster: %w", err)
	}
	return reaped(all, func(one claim) metadata { return one.Metadata },
		func(name string) error { return c.unclaim(ctx, name) })
}

func networkOf(cfg sandbox.Config) string {
	if cfg.Network {
		return "open"
	}
	return "closed"
}

// owned is a name by chance, and marks of whose it is.
func (*cluster) owned(name string, more map[string]string) metadata {
	labels := map[string]string{kindLabel: "sandbox", machineLabel: local.Computer()}
	for key, value := range more {
		labels[key] = value
	}
	return metadata{Name: "inspan-" + strings.ToLower(rand.Text()), Labels: labels,
		Annotations: map[string]string{nameNote: name}}
}
