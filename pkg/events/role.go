package events

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// Limits of roles.
const (
	// MaxRoleEnv is how many variables a role gives its agents, MaxRoleEnvValue the most bytes of one.
	MaxRoleEnv      = 32
	MaxRoleEnvValue = 1 << 10
	// MaxRolePrompt is the most bytes of the prompt of a role.
	MaxRolePrompt = 4 << 10
	// MaxRoleNames is how many names the pool of a role has, MaxInstances the largest quota.
	MaxRoleNames = 64
	MaxInstances = 256
)

// AgentRole is what the agents of a role have in common: the files of the role, value by value, over what is built in.
type AgentRole struct {
	// Name is ROLE, or PROJECT/ROLE where a project has a file of its own for the role.
	Name string `json:"name"`
	// Agent is the definition that its agents run, Start "built-in" or "runtime:NAME": what carries that out.
	Agent string `json:"agent"`
	Start string `json:"start_command"`
	// Pattern names the session of an agent, WorkDir the folder of its workspace that its commands begin in, and Prompt is
	// what each of its runs is told first. {project}, {role} and {name} in them are those of the agent.
	Pattern string `json:"pattern"`
	WorkDir string `json:"work_dir,omitempty"`
	Prompt  string `json:"prompt_template,omitempty"`
	// Env are variables of its commands.
	Env    map[string]string `json:"env,omitempty"`
	Health RoleHealth        `json:"health,omitzero"`
	// Max is how many agents of the role may be at work at once, 0 for any number.
	Max int `json:"max_instances,omitempty"`
	// Names are taken first for new agents.
	Names []string `json:"names,omitempty"`
	// Supervisory agents are stopped after all others.
	Supervisory bool   `json:"supervisory,omitempty"`
	Digest      string `json:"digest"`
	// From says of each key where its value stands: "project FILE:LINE", "system FILE:LINE" or "built-in".
	From map[string]string `json:"from,omitempty"`
}

// RoleHealth is when the supervision says that an agent of a role needs somebody; zero values are those of the station.
type RoleHealth struct {
	// PingMS is how long a run may be without its first turn, StuckMS without any event.
	PingMS  int64 `json:"ping_timeout_ms,omitempty"`
	StuckMS int64 `json:"stuck_threshold_ms,omitempty"`
	// Failures is how many runs in a row may fail, CooldownMS the wait after the first one, which doubles.
	Failures   int   `json:"consecutive_failures,omitempty"`
	CooldownMS int64 `json:"kill_cooldown_ms,omitempty"`
}

// CrashLoop is how many runs in a row may fail.
func (h RoleHealth) CrashLoop() int {
	if h.Failures > 0 {
		return h.Failures
	}
	return CrashLoop
}

// Cooldown is the wait after the first failure, or what is usual.
func (h RoleHealth) Cooldown(usual time.Duration) time.Duration {
	if h.CooldownMS > 0 {
		return time.Duration(h.CooldownMS) * time.Millisecond
	}
	return usual
}

// Fits reports whether an agent's address is of the role.
func (r AgentRole) Fits(address string) bool {
	parts := strings.Split(address, "/")
	return len(parts) == 3 && (r.Name == parts[1] || r.Name == parts[0]+"/"+parts[1])
}

// RoleOf is the role of an address among those of a definition: that of its project comes before that of all; nil for
// none.
func RoleOf(all []AgentRole, address string) (of *AgentRole) {
	for i, r := range all {
		if r.Fits(address) && (of == nil || strings.Contains(r.Name, "/")) {
			of = &all[i]
		}
	}
	return of
}

// Fill puts the parts of an agent's address into one of the templates of a role.
func (AgentRole) Fill(template, address string) string {
	parts := strings.Split(address, "/")
	if len(parts) != 3 {
		return template
	}
	return strings.NewReplacer("{project}", parts[0], "{role}", parts[1], "{name}", parts[2]).Replace(template)
}

// roleWord begins the addresses of roles.
const roleWord = "role"

// RoleAddressOf is the address in whose log it stands which agents of a role are at work.
func RoleAddressOf(role string) string {
	if project, name, of := strings.Cut(role, "/"); of {
		return roleWord + "/" + name + "/of/" + project
	}
	return roleWord + "/" + role
}

// RoleIn is the role of a project whose address that is; ok is false for other addresses.
func RoleIn(address string) (project, role string, ok bool) {
	parts := strings.Split(address, "/")
	if len(parts) != 4 || !roleAddress(parts) {
		return "", "", false
	}
	return parts[3], parts[1], true
}

// roleAddress reports whether the parts of an address are those of a role.
func roleAddress(parts []string) bool {
	return (len(parts) == 2 || len(parts) == 4 && parts[2] == "of" && addressPart(parts[3])) && parts[0] == roleWord &&
		addressPart(parts[1])
}

// ParseRole returns what is not a role: a role is ROLE or PROJECT/ROLE, in the characters of addresses.
func ParseRole(role string) error {
	project, name, of := strings.Cut(role, "/")
	if !of {
		project, name = "any", role
	}
	form, _, err := ParseAddress(project + "/" + name + "/any")
	if err == nil && (form != AgentAddress || reservedProject(project)) {
		err = errReservedProject
	}
	return err
}

// errReservedProject is about a project whose roles could be taken for other addresses.
var errReservedProject = errors.New("queue, list, channel, role and all are no projects of roles")

func reservedProject(project string) bool {
	return project == roleWord || project == Everyone || slices.Contains(groupForms, AddressForm(project))
}

// RoleSlot is an agent of a role that is at work, in an epoch of its own, since a time.
type RoleSlot struct {
	Agent string    `json:"agent"`
	Epoch int       `json:"epoch"`
	At    time.Time `json:"at"`
}
