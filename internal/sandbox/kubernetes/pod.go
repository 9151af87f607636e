package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
)

// What is written on pods.
const (
	kindLabel    = "inspan.dev/kind"    // sandbox
	machineLabel = "inspan.dev/machine" // the computer on which the owner's name is true
	networkLabel = "inspan.dev/network" // open or closed, for a NetworkPolicy
	nameNote     = "inspan.dev/name"    // the sandbox's own name, which tells whose it is
)

const (
	// container is the name of the pod's only one, home where its files are.
	container = "box"
	home      = "/inspan"
	// user is who commands are; no image has it.
	user = 64123
	// grace is how long the first process is given to end, in seconds.
	grace = 1
	// lifeMargin is how much longer than its sandbox a pod may live.
	lifeMargin = 10 * time.Minute
)

// idle is the first process of a pod: it waits, and ends what it adopts. A node that ends it says why only where it
// fails.
const idle = `trap 'exit 143' TERM; while :; do sleep 3600 & wait $!; done`

// pod is what of a pod is written and read.
type pod struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Metadata   metadata  `json:"metadata"`
	Spec       spec      `json:"spec"`
	Status     podStatus `json:"status,omitzero"`
}

type metadata struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Owners      []owner           `json:"ownerReferences,omitempty"`
}

type owner struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Controller bool   `json:"controller"`
}

type spec struct {
	RestartPolicy string        `json:"restartPolicy,omitempty"`
	RuntimeClass  string        `json:"runtimeClassName,omitempty"`
	Token         *bool         `json:"automountServiceAccountToken,omitempty"`
	Links         *bool         `json:"enableServiceLinks,omitempty"`
	Grace         *int64        `json:"terminationGracePeriodSeconds,omitempty"`
	Deadline      *int64        `json:"activeDeadlineSeconds,omitempty"`
	Security      *podIsolation `json:"securityContext,omitempty"`
	Containers    []sandboxSpec `json:"containers,omitempty"`
	Volumes       []volume      `json:"volumes,omitempty"`
}

type podIsolation struct {
	NonRoot bool    `json:"runAsNonRoot"`
	User    int64   `json:"runAsUser"`
	Group   int64   `json:"runAsGroup"`
	FSGroup int64   `json:"fsGroup"`
	Seccomp profile `json:"seccompProfile"`
}

type profile struct {
	Type string `json:"type"`
}

type sandboxSpec struct {
	Name      string           `json:"name"`
	Image     string           `json:"image"`
	Command   []string         `json:"command"`
	Dir       string           `json:"workingDir"`
	Env       []variable       `json:"env"`
	Resources resources        `json:"resources"`
	Security  sandboxIsolation `json:"securityContext"`
	Mounts    []mount          `json:"volumeMounts"`
}

type variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type resources struct {
	Limits map[string]string `json:"limits,omitempty"`
}

type sandboxIsolation struct {
	Escalate   bool         `json:"allowPrivilegeEscalation"`
	Privileged bool         `json:"privileged"`
	ReadOnly   bool         `json:"readOnlyRootFilesystem"`
	Caps       capabilities `json:"capabilities"`
}

type capabilities struct {
	Drop []string `json:"drop"`
}

type mount struct {
	Name string `json:"name"`
	Path string `json:"mountPath"`
}

type volume struct {
	Name  string `json:"name"`
	Empty empty  `json:"emptyDir"`
}

type empty struct {
	Limit string `json:"sizeLimit,omitempty"`
}

type podStatus struct {
	Phase      string `json:"phase"`
	Reason     string `json:"reason"`
	Message    string `json:"message"`
	Conditions []struct {
		Type, Status, Reason, Message string
	} `json:"conditions"`
	Containers []struct {
		Ready bool `json:"ready"`
		State struct {
			Waiting *struct {
				Reason, Message string
			} `json:"waiting"`
		} `json:"state"`
	} `json:"containerStatuses"`
}

// wanted is the specification of a sandbox's pod.
func (c *cluster) wanted(name string, cfg sandbox.Config) pod {
	no, wait := false, int64(grace)
	deadline := int64(c.life(cfg) / time.Second)
	limits := map[string]string{}
	if cfg.Limits.CPU > 0 {
		limits["cpu"] = strconv.FormatInt(int64(cfg.Limits.CPU*1000), 10) + "m"
	}
	if cfg.Limits.Memory > 0 {
		limits["memory"] = strconv.FormatInt(cfg.Limits.Memory, 10)
	}
	size := ""
	if cfg.Limits.Disk > 0 {
		size = strconv.FormatInt(cfg.Limits.Disk, 10)
		limits["ephemeral-storage"] = size
	}
	return pod{APIVersion: "v1", Kind: "Pod",
		Metadata: c.owned(name, map[string]string{networkLabel: networkOf(cfg)}),
		Spec: spec{RestartPolicy: "Never", RuntimeClass: c.cfg.RuntimeClass, Token: &no, Links: &no, Grace: &wait,
			Deadline: &deadline,
			Security: &podIsolation{NonRoot: true, User: user, Group: user, FSGroup: user, Seccomp: profile{"RuntimeDefault"}},
			Containers: []sandboxSpec{{Name: container, Image: c.cfg.Image, Command: []string{"/bin/sh", "-c", idle}, Dir: home,
				Env: []variable{{"HOME", home}}, Resources: resources{limits},
				Security: sandboxIsolation{ReadOnly: true, Caps: capabilities{[]string{"ALL"}}},
				Mounts:   []mount{{"home", home}, {"tmp", "/tmp"}}}},
			Volumes: []volume{{"home", empty{size}}, {"tmp", empty{size}}}}}
}

// life is how long what a sandbox runs in may live.
func (c *cluster) life(cfg sandbox.Config) time.Duration {
	if cfg.Limits.Wall > 0 {
		return min(c.cfg.MaxLife, cfg.Limits.Wall+lifeMargin)
	}
	return c.cfg.MaxLife
}

// create makes a pod and waits until commands can run in it.
func (c *cluster) create(ctx context.Context, name string, cfg sandbox.Config) (*machine, error) {
	want := c.wanted(name, cfg)
	m := &machine{cluster: c, name: want.Metadata.Name, sandbox: container, disk: cfg.Limits.Disk}
	err := c.call(ctx, http.MethodPost, c.pods(""), want, nil)
	if err == nil {
		err = c.ready(ctx, m.name)
	}
	if err != nil {
		// It may be there although no answer said so.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callWait)
		defer cancel()
		return nil, errors.Join(err, c.discard(ctx, m, err))
	}
	return m, nil
}

// discard deletes what did not come to be used. Where the server refused to make it, or cannot be reached, there is
// nothing more to say.
func (c *cluster) discard(ctx context.Context, m *machine, why error) error {
	err := m.remove(ctx)
	if errors.Is(why, ErrCluster) {
		return nil // it ends by its deadline
	}
	return err
}

// hopeless are reasons for which a container waits in vain.
var hopeless = [...]string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull",
	"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

// ready waits until the pod's container runs.
func (c *cluster) ready(ctx context.Context, name string) error {
	late := time.NewTimer(c.cfg.StartWait)
	defer late.Stop()
	tick := time.NewTicker(c.cfg.Poll)
	defer tick.Stop()
	for {
		var p pod
		if err := c.call(ctx, http.MethodGet, c.pods(name), nil, &p); err != nil {
			return err
		}
		why := waits(p.Status)
		for _, sb := range p.Status.Containers {
			if p.Status.Phase == "Running" && sb.Ready {
				return nil
			}
			if w := sb.State.Waiting; w != nil && slices.Contains(hopeless[:], w.Reason) {
				return fmt.Errorf("%w does not start: %s", ErrPod, why)
			}
		}
		if p.Status.Phase == "Failed" || p.Status.Phase == "Succeeded" {
			return fmt.Errorf("%w has ended: %s", ErrPod, why)
		}
		select {
		case <-tick.C:
		case <-late.C:
			return fmt.Errorf("%w does not run after %v: %s", ErrPod, c.cfg.StartWait, why)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// waits is what the cluster says of a pod that does not run.
func waits(s podStatus) string {
	said := []string{fmt.Sprintf("%.40q", s.Phase)}
	add := func(reason, message string) {
		if reason != "" || message != "" {
			said = append(said, fmt.Sprintf("%.60q %.*q", reason, maxWord, message))
		}
	}
	add(s.Reason, s.Message)
	for _, c := range s.Conditions[:min(len(s.Conditions), 8)] {
		if c.Status == "False" {
			add(c.Reason, c.Message)
		}
	}
	for _, c := range s.Containers[:min(len(s.Containers), 8)] {
		if c.State.Waiting != nil {
			add(c.State.Waiting.Reason, c.State.Waiting.Message)
		}
	}
	return strings.Join(said, ", ")
}
