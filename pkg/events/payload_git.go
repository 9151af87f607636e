package events

// StepKind says who carries a step of a plan out; empty is an agent. The others are steps of the harness, which ask no
// model: only the planner makes them, no task, formula or model can.
type StepKind string

// The kinds of steps of the harness. A run that works in git begins with a checkout, before all other steps, and ends
// with a deliver, after all others have ended.
const (
	StepCheckout StepKind = "checkout"
	StepDeliver  StepKind = "deliver"
	// StepCommit commits the work of one step, whose settings ask for that, before the steps that depend on it begin.
	StepCommit StepKind = "commit"
)

// Ids of the steps of the harness. No other step may have them.
const (
	CheckoutStep = "git-checkout"
	DeliverStep  = "git-deliver"
	// CommitStepPrefix begins the ids of steps of kind StepCommit; the place of the step in the plan that it commits
	// follows, from 1.
	CommitStepPrefix = "git-commit-"
)

// HarnessProvider stands where the provider of a turn does that the harness took itself.
const HarnessProvider = "harness"

// The tools of git that the harness calls in its own steps.
const (
	GitPrepare = "git_prepare"
	GitCommit  = "git_commit"
	GitMerge   = "git_merge"
	GitPublish = "git_publish"
	GitPush    = "git_push"
	GitReview  = "git_review"
	GitRemove  = "git_remove"
)

// Words of GitSettings.Workspace.
const (
	// WorkspacePersistent: a workspace has a copy of its own of the repository.
	WorkspacePersistent = "persistent"
	// WorkspaceEphemeral: it borrows the objects of a mirror that runs on the same remote share, and goes when its last
	// run ends.
	WorkspaceEphemeral = "ephemeral"
)

// Words of GitSettings.Strategy.
const (
	BranchShared = "shared"
	BranchPerRun = "per_run"
)

// MaxMerge is the most branches that one run merges.
const MaxMerge = 32

// GitSettings say how runs work in git, as an agent's file or a task writes them. What is not set is left to who says
// it otherwise: the task wins over the agent's file, and that over the defaults.
type GitSettings struct {
	// AutoBranch makes a new branch for the work; true by default, but not where runs of a session share a working
	// branch.
	AutoBranch *bool `json:"auto_branch,omitempty"`
	// BranchPrefix begins the names of such branches; "agent/" by default.
	BranchPrefix string `json:"branch_prefix,omitempty"`
	// AutoCommit lets the harness commit what the run changed when its steps have ended. Unset it does where the run
	// works in a session or says how it collaborates (C17).
	AutoCommit *bool `json:"auto_commit,omitempty"`
	// WorkingBranch is the main line of work; empty is the branch that is checked out. ${input.NAME} stands for a
	// variable of the task, ${session_id}, ${workflow_run_id}, ${run_id} and ${agent} for what they say.
	WorkingBranch string `json:"working_branch,omitempty"`
	// Strategy is BranchShared (default) where the runs of a workflow work on one branch, else BranchPerRun.
	Strategy string `json:"workflow_branch_strategy,omitempty"`
	// Collaboration is sequential, where runs of a session work on one branch after the other, or parallel, where each
	// agent has a branch and a working tree of its own. Unset it is as the session's mode.
	Collaboration SessionMode `json:"collaboration,omitempty"`
	// RequireApproval asks a person before a push or a merge, at every autonomy level; true by default.
	RequireApproval *bool `json:"require_approval,omitempty"`
	// Push sends the branch to the repository it came from when the steps of the run are complete; unset it does where
	// the task names a repository.
	Push *bool `json:"push,omitempty"`
	// Workspace is WorkspacePersistent (default) or WorkspaceEphemeral.
	Workspace string `json:"workspace,omitempty"`
}

// TaskGit are the settings of one run.
type TaskGit struct {
	GitSettings
	// Merge are the branches that the run merges into its working branch at its end, at most MaxMerge.
	Merge []string `json:"merge,omitempty"`
}

// GitWork is how a run works in git. It was resolved when the run was created and holds for all of its steps
// but for what PlanStep.Git says for one of them (GIT-13).
type GitWork struct {
	// Branch of the repository to begin with, and how many commits of history are fetched, 0 for all.
	Branch string `json:"branch,omitempty"`
	Depth  int    `json:"depth,omitempty"`
	// WorkingBranch is the main line of work, empty for the one that is checked out; NewBranch the run's own that is
	// made off it, empty where the run works on the working branch.
	WorkingBranch   string      `json:"working_branch,omitempty"`
	NewBranch       string      `json:"new_branch,omitempty"`
	Collaboration   SessionMode `json:"collaboration"`
	AutoCommit      bool        `json:"auto_commit"`
	Push            bool        `json:"push"`
	RequireApproval bool        `json:"require_approval"`
	Merge           []string    `json:"merge,omitempty"`
	// Begin is where the work of a fork begins; nil for the main line.
	Begin *GitBegin `json:"begin,omitempty"`
	// Subject is the first line of the commit that the harness makes; empty is the beginning of the task.
	Subject string `json:"subject,omitempty"`
	// Review is the review that is asked for once the branch is pushed; nil asks for none.
	Review *ReviewAsk `json:"review,omitempty"`
	// Workspace is WorkspaceEphemeral, or empty for a full copy that stays.
	Workspace string `json:"workspace,omitempty"`
	// Scope is where the branches of a child run are published: where its parent takes them from. Empty for all others.
	Scope string `json:"scope,omitempty"`
}

// ReviewAsk is a review that a run asks for. How is ReviewGitHub or ReviewGitLab, Target the branch that the work is to
// go to.
type ReviewAsk struct {
	How    string `json:"how"`
	Target string `json:"target"`
	Title  string `json:"title,omitempty"`
}

// GitBegin is the commit that a run had where it was forked, as far as its events tell.
type GitBegin struct {
	Commit string `json:"commit"`
	// Branch that it was on, and the scopes in which branches of that run are published.
	Branch string   `json:"branch,omitempty"`
	Scopes []string `json:"scopes"`
}

// Delivery is what became of the work that a run did in git. It says only what was seen once it was done: what the
// remote had after a push, what a branch was at after a merge.
type Delivery struct {
	// Branch of the run and the commit that it is at; Base is the commit that the run began with.
	Branch string `json:"branch,omitempty"`
	Commit string `json:"commit,omitempty"`
	Base   string `json:"base,omitempty"`
	// Tree is the tree of Commit; where checks decided about the run, the one that they checked.
	Tree string `json:"tree,omitempty"`
	// Pushed is true where the remote was asked after the push and had Commit at RemoteBranch.
	Pushed       bool   `json:"pushed"`
	Remote       string `json:"remote,omitempty"`
	RemoteBranch string `json:"remote_branch,omitempty"`
	// Review is the request for a review that the forge has for Commit; nil where none was asked for.
	Review *ReviewRequest `json:"review,omitempty"`
	// Bundle is the object that the branch is kept as, so that other working trees can take it.
	Bundle string `json:"bundle,omitempty"`
	// Merged branches, and those that were not because both sides changed the same places.
	Merged    []MergedBranch  `json:"merged,omitempty"`
	Conflicts []MergeConflict `json:"conflicts,omitempty"`
	// Note says why something that was asked for is not done.
	Note string `json:"note,omitempty"`
}

// MergedBranch is a branch that was merged.
type MergedBranch struct {
	Branch string `json:"branch"`
	Commit string `json:"commit"`
	// How is "merge", "forward" where the working branch just moved on, or "nothing" where it had all of it.
	How string `json:"how"`
}

// MergeConflict is a branch that was not merged. Both sides are as they were.
type MergeConflict struct {
	Branch string `json:"branch"`
	Ours   string `json:"ours"`
	Theirs string `json:"theirs"`
	// Paths that both sides changed; More are left out.
	Paths []string `json:"paths"`
	More  int      `json:"more,omitempty"`
}
