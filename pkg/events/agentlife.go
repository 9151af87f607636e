package events

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Limits of agents.
const (
	// MaxSummary is the most bytes of the summary of a handoff.
	MaxSummary = 8 << 10
	// MaxAgentPast is how many of the last runs of an agent its row names.
	MaxAgentPast = 16
	// MaxPlanLines is how many steps of a plan an account names.
	MaxPlanLines = 40
	// CrashLoop is how many runs in a row may fail before no further one goes on with their work by itself.
	CrashLoop = 5
	// PatrolEvery is how often a working agent is looked at. An idle one is not looked at.
	PatrolEvery = 5 * time.Minute
	// AlertStale is how long an alert may stand without anybody looking at it before its severity rises.
	AlertStale = 30 * time.Minute
)

// AgentLife is what is known of an agent beside its mail.
type AgentLife struct {
	// Stopped is true between a stop and the next start.
	Stopped bool `json:"stopped,omitempty"`
	// Asked is what the run that is the agent now is to make way for.
	Asked *AgentAsk `json:"asked,omitempty"`
	// Account is what the next run is given of one before, until a run with it has completed.
	Account *AgentAccount `json:"account,omitempty"`
	// Tier is of the address of all agents alone: the models of roles.
	Tier *AgentTier `json:"tier,omitempty"`
	// Routes are of the address of all agents alone: where alerts go.
	Routes *AlertRoutes `json:"routes,omitempty"`
	// Past are the last runs, the newest last.
	Past  []AgentPast `json:"past,omitempty"`
	Alert *AgentAlert `json:"alert,omitempty"`
	// Role is what the role of the agent was when it was last woken; nil for none.
	Role *AgentRole `json:"role,omitempty"`
	// Work is the binding that the agent is to be woken for. It is its current work while the log of the item says so.
	Work *WorkRef `json:"work,omitempty"`
	// Quota is of the address of a role alone.
	Quota *RoleQuota `json:"quota,omitempty"`
}

// RoleQuota is who of a role is at work, of at most so many, and who waits, the first first.
type RoleQuota struct {
	Max     int        `json:"max"`
	Working []RoleSlot `json:"working,omitempty"`
	Waiting []string   `json:"waiting,omitempty"`
}

// FinishHandedOff is the finish reason of the run of an agent whose next run goes on with its work.
const FinishHandedOff = "handed_off"

// TierAgent begins a value of a tier that names a definition, and with that its runtime, in place of a model.
const TierAgent = "agent:"

// AgentTier says which models the agents of roles use, in place of those of their definitions, or which definitions in
// place of theirs. A key of Models is a role, or project/role, which comes first.
type AgentTier struct {
	Name   string            `json:"name"`
	Models map[string]string `json:"models,omitempty"`
}

// MaxTierModels is how many roles a tier names.
const MaxTierModels = 64

// Model is the model of an agent's address; empty leaves that of its definition.
func (t *AgentTier) Model(address string) string {
	if t == nil {
		return ""
	}
	project, rest, _ := strings.Cut(address, "/")
	role, _, _ := strings.Cut(rest, "/")
	if m := t.Models[project+"/"+role]; m != "" {
		return m
	}
	return t.Models[role]
}

// Check returns what is wrong with a tier, but for its models.
func (t *AgentTier) Check() error {
	if len(t.Models) > MaxTierModels {
		return fmt.Errorf("the tier names %d roles, the limit is %d", len(t.Models), MaxTierModels)
	}
	for role := range t.Models {
		for part := range strings.SplitSeq(role, "/") {
			if !addressPart(part) || strings.Count(role, "/") > 1 {
				return fmt.Errorf("%.80q is no role: want ROLE or PROJECT/ROLE, each 1 to 20 of a-z 0-9 and -", role)
			}
		}
	}
	return CheckID("tier", t.Name)
}

// Orders to the run of an agent.
const (
	OrderHandoff = "handoff"
	OrderRestart = "restart"
)

// AgentAsk is that the run of an agent is to make way for the next one.
type AgentAsk struct {
	Order string `json:"order"`
	Epoch int    `json:"epoch"`
	// Summary is where the work stands; empty where the account is made from the events of the run alone.
	Summary string    `json:"summary,omitempty"`
	By      string    `json:"by"`
	At      time.Time `json:"at"`
}

// AgentAccount is what a run is given of the run before it.
type AgentAccount struct {
	Epoch int    `json:"epoch"`
	Run   string `json:"run"`
	// Cause is handoff, restart, or the code that the run ended with.
	Cause string `json:"cause"`
	// Summary is in the words of the run, or of who asked for the handoff.
	Summary string `json:"summary,omitempty"`
	// Plan are the steps of the run's plan, each with its status; Branch is the git branch, Work the id of the work item.
	Plan   []string `json:"plan,omitempty"`
	Branch string   `json:"branch,omitempty"`
	Work   string   `json:"work,omitempty"`
	// Task is what the run was given to do.
	Task string `json:"task,omitempty"`
	// Mail are messages that the run was given: no other run is given them.
	Mail []string `json:"mail,omitempty"`
}

// AgentPast is a run that an agent was.
type AgentPast struct {
	Epoch int       `json:"epoch"`
	Run   string    `json:"run"`
	Code  string    `json:"code"`
	At    time.Time `json:"at"`
}

// Severity says how soon a person should look.
type Severity string

// The severities, the lowest first.
const (
	SeverityLow      Severity = "low"
	SeverityMedium   Severity = "medium"
	SeverityHigh     Severity = "high"
	SeverityCritical Severity = "critical"
)

// Severities lists them, the lowest first.
func Severities() []Severity {
	return []Severity{SeverityLow, SeverityMedium, SeverityHigh, SeverityCritical}
}

// AgentAlert is what the supervision of an agent found.
type AgentAlert struct {
	// Signal is what was found, in one word.
	Signal   string   `json:"signal"`
	Severity Severity `json:"severity"`
	Epoch    int      `json:"epoch"`
	Run      string   `json:"run,omitempty"`
	Text     string   `json:"text,omitempty"`
	// Since is when it began, RaisedAt when this severity was reached, Bumps how often the severity rose.
	Since    time.Time `json:"since"`
	RaisedAt time.Time `json:"raised_at"`
	Bumps    int       `json:"bumps,omitempty"`
	// SeenBy is who looks at it.
	SeenBy string `json:"seen_by,omitempty"`
	// Sent is where it was sent to with this severity, and what became of that.
	Sent []AlertNotice `json:"sent,omitempty"`
}

// CheckSummary returns what is wrong with the summary of a handoff.
func CheckSummary(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("the summary is empty: say what was done, what was found out and what is left")
	}
	return checkText("summary", text, MaxSummary, true)
}
