package kubernetes

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/inspan/inspan/internal/sandbox"
)

// takenPod is what is read of a pod that somebody else specified, to see whether it is closed. What is not said is nil,
// because the pod and its container can both say it.
type takenPod struct {
	Metadata metadata  `json:"metadata"`
	Spec     takenSpec `json:"spec"`
}

type takenSpec struct {
	HostNetwork bool           `json:"hostNetwork"`
	HostPID     bool           `json:"hostPID"`
	HostIPC     bool           `json:"hostIPC"`
	Security    takenIsolation `json:"securityContext"`
	Containers  []takenSandbox `json:"containers"`
	Volumes     []takenMount   `json:"volumes"`
}

type takenSandbox struct {
	Name      string         `json:"name"`
	Resources resources      `json:"resources"`
	Security  takenIsolation `json:"securityContext"`
}

type takenIsolation struct {
	NonRoot    *bool    `json:"runAsNonRoot"`
	User       *int64   `json:"runAsUser"`
	Escalate   *bool    `json:"allowPrivilegeEscalation"`
	Privileged bool     `json:"privileged"`
	Seccomp    *profile `json:"seccompProfile"`
	Caps       struct {
		Add  []string `json:"add"`
		Drop []string `json:"drop"`
	} `json:"capabilities"`
}

type takenMount struct {
	Name      string `json:"name"`
	HostPath  any    `json:"hostPath"`
	Projected struct {
		Sources []struct {
			Token any `json:"serviceAccountToken"`
		} `json:"sources"`
	} `json:"projected"`
}

// or returns the first pointer that is not nil.
func or[T any](of ...*T) *T {
	for _, p := range of {
		if p != nil {
			return p
		}
	}
	return nil
}

// suits refuses a pod that is less closed than Capabilities says, or larger than the limits of a sandbox.
func (p *takenPod) suits(cfg sandbox.Config) error {
	sb, pod := p.Spec.Containers[0], p.Spec
	var bad []string
	need := func(ok bool, what string) {
		if !ok {
			bad = append(bad, what)
		}
	}
	user, root := or(sb.Security.User, pod.Security.User), or(sb.Security.NonRoot, pod.Security.NonRoot)
	need(user == nil || *user != 0, "runAsUser is not 0")
	need(user != nil || root != nil && *root, "runAsNonRoot is true")
	need(sb.Security.Escalate != nil && !*sb.Security.Escalate, "allowPrivilegeEscalation is false")
	need(!sb.Security.Privileged, "privileged is false")
	need(slices.Contains(sb.Security.Caps.Drop, "ALL") && len(sb.Security.Caps.Add) == 0, "capabilities are {drop: [ALL]}")
	filter := or(sb.Security.Seccomp, pod.Security.Seccomp)
	need(filter != nil && (filter.Type == "RuntimeDefault" || filter.Type == "Localhost"),
		"seccompProfile is RuntimeDefault or Localhost")
	need(!pod.HostNetwork && !pod.HostPID && !pod.HostIPC, "hostNetwork, hostPID and hostIPC are false")
	for _, v := range pod.Volumes {
		need(v.HostPath == nil, "no volume is a hostPath")
		for _, source := range v.Projected.Sources {
			need(source.Token == nil, "automountServiceAccountToken is false")
		}
	}
	for name, most := range map[string]int64{"cpu": int64(cfg.Limits.CPU * 1000), "memory": cfg.Limits.Memory,
		"ephemeral-storage": cfg.Limits.Disk} {
		if most <= 0 {
			continue
		}
		if name == "cpu" {
			got, ok := quantity(sb.Resources.Limits[name], 1000)
			need(ok && got <= most, fmt.Sprintf("its limit of cpu is %dm or less", most))
			continue
		}
		got, ok := quantity(sb.Resources.Limits[name], 1)
		need(ok && got <= most, fmt.Sprintf("its limit of %s is %d or less", name, most))
	}
	if len(bad) == 0 {
		return nil
	}
	slices.Sort(bad)
	return fmt.Errorf("%w: the pod of %w: change its SandboxTemplate so that %s", sandbox.ErrNotEnforced, ErrClaim,
		strings.Join(slices.Compact(bad), ", and "))
}

// suffixes of quantities.
var suffixes = [...]struct {
	text string
	size float64
}{
	{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}, {"Pi", 1 << 50}, {"Ei", 1 << 60},
	{"m", 1e-3}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}, {"E", 1e18},
}

// quantity reads an amount as the API writes it, in units of one part of so many, rounded up by at most one.
func quantity(text string, parts float64) (int64, bool) {
	size := 1.0
	for _, s := range suffixes {
		if number, ok := strings.CutSuffix(text, s.text); ok {
			text, size = number, s.size
			break
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if n *= size * parts; err != nil || !(n >= 0 && n < 1<<62) {
		return 0, false
	}
	if whole := int64(n + 1e-6); float64(whole)+1e-6 >= n {
		return whole, true
	}
	return int64(n) + 1, true
}
