package run

import (
	"time"
	"unicode/utf8"

	"github.com/inspan/inspan/pkg/events"
)

// Info is one row of the index of runs (PERS-18, LIFE-8). It is made from a State and can always be made again.
type Info struct {
	HarnessID       string        `json:"harnessId"`
	AgentName       string        `json:"agentName"`
	TaskID          string        `json:"taskId"`
	Task            string        `json:"task"`
	Status          events.Status `json:"status"`
	StepsTotal      int           `json:"stepsTotal"`
	StepsCompleted  int           `json:"stepsCompleted"`
	CurrentStep     string        `json:"currentStep,omitempty"`
	Turns           int           `json:"turns"`
	ToolCallCount   int           `json:"toolCallCount"`
	BudgetLeft      int           `json:"budgetLeft"`
	SubAgentCount   int           `json:"subAgentCount"`
	ParentHarnessID string        `json:"parentHarnessId,omitempty"`
	SessionID       string        `json:"sessionId,omitempty"`
	WorkflowRunID   string        `json:"workflowRunId,omitempty"`
	InputTokens     int           `json:"inputTokens"`
	OutputTokens    int           `json:"outputTokens"`
	CachedTokens    int           `json:"cachedTokens,omitempty"`
	// Cost of the run by its prices, Lost what was set aside for requests of which no one knows, Spent by model and
	// agent.
	Cost           events.MicroUSD `json:"costMicroUsd,omitempty"`
	Lost           events.Lost     `json:"lost,omitzero"`
	Spent          []Spend         `json:"spent,omitempty"`
	CreatedAt      time.Time       `json:"createdAt"`
	UpdatedAt      time.Time       `json:"updatedAt"`
	CompletedAt    *time.Time      `json:"completedAt,omitempty"`
	LastCheckpoint *time.Time      `json:"lastCheckpointAt"`
	Checkpoints    int             `json:"checkpointCount"`
	FinishReason   string          `json:"finishReason,omitempty"`
	// Verified names the acceptance checks that vouch for the run; a completed run without any is unverified.
	Verified []string `json:"verified,omitempty"`
	Error    string   `json:"error,omitempty"`
	// Direct is true for a run on the direct path.
	Direct bool `json:"direct,omitempty"`
	// Gates that wait for an answer.
	Gates []*Gate `json:"gates,omitempty"`
	// Provider of models that the run waits for, empty where it waits for none.
	Provider string `json:"waitingForProvider,omitempty"`
	// Sequence of the last event that the row includes.
	Sequence uint64 `json:"sequence"`
	// Archive is the whole log of an ended run as JSON lines in the object store.
	Archive *events.Ref `json:"archive,omitempty"`
	// Report says what was done, in Markdown, of a run that ended in Dream Mode or overnight.
	Report *events.Ref `json:"report,omitempty"`
	// Anchor is the persister's signed word of where the log stood; nil where no signing key is set.
	Anchor *Anchor `json:"anchor,omitempty"`
	// Held is why the run is held, where its log is damaged.
	Held string `json:"integrityHold,omitempty"`
}

// maxInfoTask bounds the task text of a row, in bytes.
const maxInfoTask = 512

// InfoOf makes the row of a state.
func InfoOf(s State) Info {
	done, total := s.StepsCompleted()
	i := Info{HarnessID: s.HarnessID, AgentName: s.AgentName, TaskID: s.TaskID, Status: s.Status, StepsTotal: total,
		StepsCompleted: done, Turns: s.ModelTurns(), ToolCallCount: s.TotalToolCalls, BudgetLeft: s.BudgetLeft(),
		SubAgentCount: len(s.SubAgentIDs), SessionID: s.Identity.Session, WorkflowRunID: s.Identity.WorkflowRun,
		InputTokens: s.Tokens.Input, OutputTokens: s.Tokens.Output, CachedTokens: s.Tokens.Cached,
		Cost: s.Cost, Lost: s.Lost, Spent: s.Spent, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
		CompletedAt: s.EndedAt, LastCheckpoint: s.LastCheckpointAt, Checkpoints: s.CheckpointCount,
		Direct: s.Direct(), Gates: s.Waiting(), Sequence: s.Sequence}
	if s.Created != nil {
		i.ParentHarnessID, i.Task = s.Created.Parent, cut(s.Created.Task, maxInfoTask)
	}
	if s.Plan != nil && s.CurrentStepIndex < total {
		i.CurrentStep = s.Plan.Steps[s.CurrentStepIndex].ID
	}
	if out := s.Outages(); len(out) > 0 && s.Status == events.Running && !ForBudget(out[0]) {
		i.Provider = out[0].Provider
	}
	if s.Result != nil {
		i.FinishReason, i.Error = s.Result.FinishReason, s.Result.Error
		for _, v := range s.Result.Verified {
			i.Verified = append(i.Verified, v.Name)
		}
	}
	return i
}

// cut shortens a text to at most n bytes, never inside a character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
