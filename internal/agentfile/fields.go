package agentfile

import (
	"time"

	"github.com/inspan/inspan/internal/core/loop"
	"github.com/inspan/inspan/internal/core/needs"
	"github.com/inspan/inspan/internal/egress/policy"
	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/pkg/events"
)

// Limits of values. Options of the run may be stricter.
const (
	maxSteps     = 10_000
	maxToolCalls = 100_000
	maxTokens    = 10_000_000
	maxTimeout   = 30 * 24 * time.Hour
	maxBackoff   = time.Hour
	maxRetries   = 20
	maxPattern   = 1 << 10
)

func acts(s shape) field  { return field{shape: s} }
func inert(s shape) field { return field{shape: s, use: noEffect} }
func note(s shape) field  { return field{shape: s, use: forPeople} }

// agentShape is the whole frontmatter after its aliases were normalised.
func agentShape() shape {
	return mapping(map[string]field{
		"name":        acts(text()),
		"description": acts(textUpTo(MaxDescription)),
		"version":     note(shape{kinds: []kind{isText, isInt, isFloat}}),
		"model":       acts(text()),
		"runtime":     acts(text()),
		"config":      acts(configShape()),
		"input":       inert(mapping(map[string]field{"schema": acts(anything()), "default": acts(anything())})),
		"output":      acts(mapping(map[string]field{"format": acts(oneOf("", "json", "text")), "schema": acts(anything())})),
		"tools":       acts(list(text(), MaxTools)),
		"delegates":   acts(list(text(), events.MaxDelegates)),
		"mcp":         acts(mcpShape()),
		"plan":        acts(oneOf("", "model")),
		"harness":     acts(harnessShape()),
		"workspace":   acts(workspaceShape()),
		"git":         acts(gitShape()),
		"sandbox":     acts(sandboxShape()),
		"requires":    acts(requiresShape()),
		"permissions": acts(shape{kinds: []kind{isMap}}),
		"artifacts":   acts(artifactsShape()),
		"accept":      acts(acceptShape()),
		"guards":      acts(guardsShape()),
		"hooks":       acts(hooksShape()),
		"skills":      acts(mapping(map[string]field{"sources": acts(list(text(), MaxSkills))})),
		"memory": acts(mapping(map[string]field{"sources": acts(list(text(), MaxSkills)),
			"workspace": acts(boolean())})),
		"role": inert(text()),
		"triggers": inert(mapping(map[string]field{"cron": acts(text()), "webhook": acts(text()),
			"subscribe": acts(text())})),
		"schedule":  acts(scheduleShape()),
		"webhook":   inert(webhookShape()),
		"subscribe": acts(subscribeShape()),
		"metadata":  note(shape{kinds: []kind{isMap}}),
		// Mappings whose keys were moved away; what is left in them is unknown.
		"harness_config": acts(mapping(map[string]field{})),
		"station":        acts(mapping(map[string]field{})),
	})
}

const maxTemplate = 16 << 10

func configShape() shape {
	return mapping(map[string]field{
		"temperature":     acts(number(0, 2)),
		"maxOutputTokens": acts(whole(1, maxTokens)),
		"images":          acts(boolean()),
		"topP":            inert(number(0, 1)),
		"topK":            inert(whole(1, maxTokens)),
		"stopSequences":   inert(list(text(), 0)),
		"version":         inert(text()),
	})
}

func harnessShape() shape {
	return mapping(map[string]field{
		"enabled":   acts(boolean()),
		"max_steps": acts(whole(1, maxSteps)),
		"timeout":   acts(duration(time.Millisecond, maxTimeout)),
		"autonomy":  acts(whole(1, 5)),
		"retry": acts(mapping(map[string]field{
			"max_retries":  acts(whole(0, maxRetries)),
			"base_backoff": acts(duration(time.Millisecond, maxBackoff)),
		})),
		"budget": acts(mapping(map[string]field{
			"tool_calls": acts(whole(1, maxToolCalls)),
			"tokens":     acts(whole(1, 1<<50)),
			"usd":        acts(number(1e-6, events.MaxUSD)),
		})),
		"doom_loop": acts(mapping(map[string]field{
			"threshold": acts(whole(loop.MinThreshold, maxSteps)),
			"cycle":     acts(whole(1, loop.MaxCycle)),
			"action":    acts(oneOf(events.DoomWarn, events.DoomSummarize, events.DoomPause, events.DoomFail)),
		})),
		"compaction": acts(mapping(map[string]field{
			"enabled":         acts(boolean()),
			"threshold":       acts(number(0.01, 1)),
			"protect_tokens":  acts(whole(0, maxTokens)),
			"context_window":  acts(whole(1000, maxTokens*10)),
			"history_offload": note(boolean()), // the log always keeps the whole history
		})),
		"gates":     acts(mapping(gateShape())),
		"streaming": inert(mapping(map[string]field{"enabled": acts(boolean())})),
	})
}

func workspaceShape() shape {
	return mapping(map[string]field{
		"mode":                acts(oneOf("host", "sandbox")),
		"path":                inert(text()),
		"repo":                inert(text()),
		"ref":                 inert(text()),
		"isolation":           inert(oneOf("shared", "per_run", "per_workflow")),
		"isolation_mode":      inert(oneOf("shared", "per_run", "per_workflow")),
		"cleanup":             inert(oneOf("always", "on_success", "never")),
		"cleanup_on_complete": inert(boolean()),
		"cleanup_after":       inert(duration(0, maxTimeout)),
	})
}

var modes = []string{"host", "bwrap", "landlock", "docker", "gvisor", "wasm", "microvm", "firecracker", "qemu", "e2b",
	"kubernetes", "auto"}

// quantity is "4g", "4Gi", "512MB" or a bare number.
var quantity = pattern.New(`^[0-9]+(\.[0-9]+)?([kKmMgGtT]i?[bB]?)?$`)

func size() shape {
	return shape{kinds: []kind{isText, isInt}, check: func(n *node) string {
		if !quantity.MatchString(n.text) {
			return "a size such as 512m, 4g or 4Gi"
		}
		return ""
	}}
}

// maxImage bounds the name of an image: a registry, a repository, a tag and a digest.
const maxImage = 512

// requiresShape is a list of commands with the versions that are needed of them.
func requiresShape() shape {
	each := shape{kinds: []kind{isText}, check: func(n *node) string {
		if _, err := needs.Parse(n.text); err != nil {
			return "a command such as git, or one with its version such as go>=1.22"
		}
		return ""
	}}
	return list(each, needs.Max)
}

func sandboxShape() shape {
	return mapping(map[string]field{
		"mode":              acts(oneOf(modes...)),
		"isolation_backend": acts(oneOf(modes...)),
		"min_isolation":     acts(oneOf("host", "landlock", "bwrap", "docker", "gvisor")),
		"image":             acts(textUpTo(maxImage)),
		"template":          inert(text()),
		"timeout":           acts(duration(time.Millisecond, maxTimeout)),
		"kernel":            inert(text()),
		"rootfs":            inert(text()),
		"resources": acts(mapping(map[string]field{
			"cpu":    acts(number(0, 4096)),
			"vcpu":   acts(number(0, 4096)),
			"memory": acts(size()),
			"disk":   acts(size()),
			"pids":   acts(whole(1, 1<<22)),
		})),
		"network": acts(mapping(map[string]field{
			"enabled":       acts(boolean()),
			"allowed_hosts": acts(list(textUpTo(maxPattern), policy.MaxRules)),
		})),
		"filesystem": acts(mapping(map[string]field{
			"read_only":  acts(list(text(), 0)),
			"read_write": acts(list(text(), 0)),
			"denied":     acts(list(text(), 0)),
		})),
	})
}

func webhookShape() shape {
	return shape{kinds: []kind{isText, isMap}, fields: map[string]field{
		"path": acts(text()), "events": acts(list(text(), 0)), "task_template": acts(textUpTo(maxTemplate)),
		"workspace": acts(workspaceShape()),
	}}
}

// gateShape says how a gate is answered.
func gateShape() map[string]field {
	return map[string]field{
		"approvers": acts(whole(1, events.MaxApprovers)), "expires": acts(duration(time.Second, maxTimeout)),
		"on_expiry": acts(oneOf(events.ExpiryRejects, events.ExpiryFails)),
		"remind":    acts(duration(time.Second, maxTimeout)), "escalate_after": acts(duration(time.Second, maxTimeout)),
		"escalate_to": acts(textUpTo(events.MaxID)),
	}
}

func guardsShape() shape {
	words := list(textUpTo(maxPattern), 64)
	match := mapping(map[string]field{
		"argv": acts(words), "flags_any": acts(words), "flags_all": acts(words), "refspec_force": acts(boolean()),
		"glob": acts(textUpTo(maxPattern)), "path_outside": acts(oneOf("workspace")), "path": acts(textUpTo(maxPattern)),
	})
	return list(mapping(map[string]field{
		"gate": acts(mapping(gateShape())),
		"id":   acts(text()), "on": acts(text()), "tool": acts(textUpTo(maxPattern)), "match": acts(match),
		"except": acts(match),
		"action": acts(oneOf("allow", "deny", "ask")), "reason": acts(text()),
		"severity": inert(oneOf("low", "medium", "high", "critical")),
		"roles":    acts(list(text(), 0)), "locked": acts(boolean()), "remove": acts(boolean()),
		"run": acts(anything()),
	}), MaxRules)
}
