package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// CheckKind says what decides an acceptance check.
type CheckKind string

// Kinds of acceptance checks.
const (
	// CheckCommand is a command that must exit with 0 in a sandbox of its own, on a copy of the files of the claim.
	CheckCommand CheckKind = "command"
	// CheckArtifact is a file or directory that must exist.
	CheckArtifact CheckKind = "artifact"
	// CheckGit is what must hold of the repository in the workspace.
	CheckGit CheckKind = "git"
	// CheckSchema is a JSON Schema that the output of the step must fit.
	CheckSchema CheckKind = "schema"
	// CheckPerson is a person who says at a gate whether the work is done.
	CheckPerson CheckKind = "person"
	// CheckReview is the verdict of another agent, which sees a copy of the files and nothing that the agent was told.
	CheckReview CheckKind = "review"
	// CheckExpr is an expression over the output of the step that must be true.
	CheckExpr CheckKind = "expr"
	// CheckFiles finds out which files a person or a reviewer decides about. The harness puts it before such a check; no
	// task has it.
	CheckFiles CheckKind = "files"
)

// Where the scripts of a CheckCommand come from.
const (
	// FromBase is the commit that the run began with, where it works in git and has them.
	FromBase = "base"
	// FromClaim are the files as the agent left them, for a script that is what the agent was asked for.
	FromClaim = "claim"
)

// What a CheckGit may require.
const (
	// RequireCommit is a commit that the run did not begin with, and that has what it began with among its ancestors.
	RequireCommit = "commit"
	// RequireClean is a working tree without uncommitted changes.
	RequireClean = "clean"
	// RequireAhead is a branch with commits that the commit does not have at which it left the main line.
	RequireAhead = "ahead_of_base"
)

// Types of a CheckArtifact.
const (
	CheckedFile = "file"
	CheckedDir  = "dir"
)

// Limits of acceptance checks.
const (
	MaxChecks       = 16
	MaxCheckCommand = 4 << 10
	MaxCheckName    = 80
	// MaxExpect is how many texts the output of a check must have, each of at most MaxCheckPath bytes.
	MaxExpect    = 32
	MaxProtect   = 64
	MaxCheckPath = 256
	// DefaultClaims is how often a step may be claimed to be done where no one says another; MaxClaims bounds it.
	DefaultClaims = 3
	MaxClaims     = 20
	// DefaultCheckTime bounds a check that names no time limit, MaxCheckTime each of them.
	DefaultCheckTime = 5 * time.Minute
	MaxCheckTime     = time.Hour
	// MaxCheckOutput is how many bytes of the end of a check's output its event has.
	MaxCheckOutput = 4 << 10
	// MaxCheckReason bounds the reason why a check failed, in bytes.
	MaxCheckReason = 1 << 10
	// MaxRestored is how many restored paths the result of a check names.
	MaxRestored = 20
	// MaxVerified is how many checks the result of a run names.
	MaxVerified = 64
)

// Check is one acceptance check.
type Check struct {
	Kind CheckKind `json:"kind"`
	// Name is what people read of the check; empty means what it does.
	Name string `json:"name,omitempty"`
	// Run is the command of a CheckCommand, for a shell.
	Run string `json:"run,omitempty"`
	// Expect are texts that the output of the command must have, such as the names of the tests that must have run.
	Expect []string `json:"expect,omitempty"`
	// From is where the scripts come from that the command runs by their path: FromBase (default) or FromClaim.
	From string `json:"from,omitempty"`
	// Timeout of a CheckCommand, such as "5m"; empty means DefaultCheckTime.
	Timeout string `json:"timeout,omitempty"`
	// Path, Type and MinBytes are of a CheckArtifact: a path below the workspace, CheckedFile (default) or CheckedDir,
	// and the least size of a file.
	Path     string `json:"path,omitempty"`
	Type     string `json:"type,omitempty"`
	MinBytes int64  `json:"min_bytes,omitempty"`
	// Require lists what a CheckGit requires.
	Require []string `json:"require,omitempty"`
	// Schema is the JSON Schema of a CheckSchema, without references, and Of what it judges: OfOutput.
	Schema json.RawMessage `json:"schema,omitempty"`
	Of     string          `json:"of,omitempty"`
	// Approvers are the only ones who may answer a CheckPerson, anyone where there are none; Votes is how many of them
	// must say yes, 0 for one, and Expires how long they have, such as "24h".
	Approvers []string `json:"approvers,omitempty"`
	Votes     int      `json:"votes,omitempty"`
	Expires   string   `json:"expires,omitempty"`
	// Agent is who makes a CheckReview, and Rubric what it goes by. Expr is the expression of a CheckExpr.
	Agent  string `json:"agent,omitempty"`
	Rubric string `json:"rubric,omitempty"`
	Expr   string `json:"expr,omitempty"`
}

// String names a check in what people read.
func (c Check) String() string {
	text := c.Name
	switch {
	case text != "":
	case c.Kind == CheckArtifact:
		text = "artifact " + c.Path
	case c.Kind == CheckGit:
		text = "git " + strings.Join(c.Require, ", ")
	case c.Kind == CheckSchema:
		text = "schema of the output"
	case c.Kind == CheckPerson:
		text = "person" + strings.Join(append([]string{""}, c.Approvers...), " ")
	case c.Kind == CheckReview:
		text = "review by " + c.Agent
	case c.Kind == CheckExpr:
		text = c.Expr
	case c.Kind == CheckFiles:
		text = "files of the claim"
	default:
		text = c.Run
	}
	return strings.ToValidUTF8(shorten(strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")), "")
}

// Equal reports whether two checks are the same.
func (c Check) Equal(o Check) bool {
	lists := slices.Equal(c.Expect, o.Expect) && slices.Equal(c.Require, o.Require) &&
		slices.Equal(c.Approvers, o.Approvers) && bytes.Equal(c.Schema, o.Schema)
	c.Expect, c.Require, c.Approvers, c.Schema = nil, nil, nil, nil
	o.Expect, o.Require, o.Approvers, o.Schema = nil, nil, nil, nil
	return lists && reflect.DeepEqual(c, o)
}

// Limit is the time that the check has.
func (c Check) Limit() time.Duration {
	if d, err := time.ParseDuration(c.Timeout); err == nil && d > 0 {
		return min(d, MaxCheckTime)
	}
	return DefaultCheckTime
}

// fault returns what is wrong with a check, or "".
func (c Check) fault() string {
	switch {
	case !slices.Contains(askedFor, c.Kind):
		return c.Kind.unknown()
	case len(c.Name) > MaxCheckName || !printable(c.Name):
		return fmt.Sprintf("name has more than %d bytes or a control character", MaxCheckName)
	case c.Kind != CheckCommand && (c.Run != "" || c.Timeout != "" || c.From != "" || len(c.Expect) > 0):
		return fmt.Sprintf("run, timeout, from and expect are not of the kind %s", c.Kind)
	case c.Kind != CheckArtifact && (c.Path != "" || c.Type != "" || c.MinBytes != 0):
		return fmt.Sprintf("path, type and min_bytes are not of the kind %s", c.Kind)
	case c.Kind != CheckGit && len(c.Require) > 0:
		return fmt.Sprintf("require is not of the kind %s", c.Kind)
	case c.Kind != CheckSchema && (len(c.Schema) > 0 || c.Of != ""):
		return fmt.Sprintf("schema and of are not of the kind %s", c.Kind)
	case c.Kind != CheckPerson && (len(c.Approvers) > 0 || c.Votes != 0 || c.Expires != ""):
		return fmt.Sprintf("approvers, votes and expires are not of the kind %s", c.Kind)
	case c.Kind != CheckReview && (c.Agent != "" || c.Rubric != ""):
		return fmt.Sprintf("agent and rubric are not of the kind %s", c.Kind)
	case c.Kind != CheckExpr && c.Expr != "":
		return fmt.Sprintf("expr is not of the kind %s", c.Kind)
	}
	switch c.Kind {
	case CheckSchema:
		return c.schemaFault()
	case CheckPerson:
		return c.personFault()
	case CheckArtifact:
		return c.artifactFault()
	case CheckGit:
		return c.gitFault()
	case CheckReview:
		return c.reviewFault()
	case CheckExpr:
		return c.exprFault()
	default:
		return c.commandFault()
	}
}

func (c Check) commandFault() string {
	d, err := time.ParseDuration(c.Timeout)
	switch {
	case strings.TrimSpace(c.Run) == "" || len(c.Run) > MaxCheckCommand || strings.ContainsRune(c.Run, 0):
		return fmt.Sprintf("run is empty, has a NUL byte or more than %d bytes", MaxCheckCommand)
	case c.Timeout != "" && (err != nil || d <= 0 || d > MaxCheckTime):
		return fmt.Sprintf("timeout %q is no duration of at most %s", shorten(c.Timeout), MaxCheckTime)
	case c.From != "" && c.From != FromBase && c.From != FromClaim:
		return fmt.Sprintf("from %q is not known, want %s or %s", shorten(c.From), FromBase, FromClaim)
	case len(c.Expect) > MaxExpect:
		return fmt.Sprintf("expect has %d texts, the limit is %d", len(c.Expect), MaxExpect)
	}
	for _, text := range c.Expect {
		if strings.TrimSpace(text) == "" || len(text) > MaxCheckPath || !printable(text) {
			return fmt.Sprintf("expect %q is empty, has a control character or more than %d bytes", shorten(text), MaxCheckPath)
		}
	}
	return ""
}

func (c Check) artifactFault() string {
	switch {
	case strings.ContainsAny(c.Path, "*?"):
		return fmt.Sprintf("path %q is a pattern, want one path", shorten(c.Path))
	case c.Type != "" && c.Type != CheckedFile && c.Type != CheckedDir:
		return fmt.Sprintf("type %q is not known, want %s or %s", shorten(c.Type), CheckedFile, CheckedDir)
	case c.MinBytes < 0 || c.MinBytes > 0 && c.Type == CheckedDir:
		return "min_bytes is negative, or of a directory"
	}
	return pathFault("path", c.Path)
}

func (c Check) gitFault() string {
	known := []string{RequireCommit, RequireClean, RequireAhead}
	if len(c.Require) == 0 || len(c.Require) > len(known) {
		return fmt.Sprintf("require has %d entries, want some of %s", len(c.Require), strings.Join(known, ", "))
	}
	for _, what := range c.Require {
		if !slices.Contains(known, what) {
			return fmt.Sprintf("require %q is not known, want some of %s", shorten(what), strings.Join(known, ", "))
		}
	}
	return ""
}

// askedFor are the kinds that a task may have.
var askedFor = []CheckKind{CheckCommand, CheckArtifact, CheckGit, CheckSchema, CheckPerson, CheckReview, CheckExpr}

func (k CheckKind) unknown() string {
	var names []string
	for _, known := range askedFor {
		names = append(names, string(known))
	}
	return fmt.Sprintf("kind %q is not known, want one of %s", shorten(string(k)), strings.Join(names, ", "))
}

// printable reports whether a text is UTF-8 without control characters.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// pathFault returns why a text is no path or pattern below a workspace, or "".
func pathFault(what, p string) string {
	parts := strings.Split(strings.TrimSuffix(p, "/"), "/")
	switch {
	case p == "" || len(p) > MaxCheckPath || !printable(p) || strings.ContainsAny(p, `\[]{}`):
		return fmt.Sprintf("%s %q is empty, has one of \\ [ ] { }, a control character or more than %d bytes", what,
			shorten(p),
			MaxCheckPath)
	case strings.HasPrefix(p, "/") || slices.Contains(parts, "..") || slices.Contains(parts, ".") ||
		slices.Contains(parts, ""):
		return fmt.Sprintf("%s %q does not stay below the workspace: leave out a leading /, . and ..", what, shorten(p))
	case slices.Contains(parts, ".git"):
		return fmt.Sprintf("%s %q is in .git, which no check sees", what, shorten(p))
	}
	return ""
}

// Accept says what decides that a step is done. In a task it may be a text, which is then the one command to be run.
type Accept struct {
	// MaxAttempts is how often the step may be claimed to be done before it fails; 0 means DefaultClaims.
	MaxAttempts int     `json:"max_attempts,omitempty"`
	Checks      []Check `json:"checks"`
	// Protect are patterns of paths, such as "**/*_test.go": commands are run with these files as they were in the
	// commit that the run began with. It needs a run that works in git.
	Protect []string `json:"protect,omitempty"`
}

// UnmarshalJSON reads both forms. A key that it does not know is an error: a check must not be left out in silence.
func (a *Accept) UnmarshalJSON(b []byte) error {
	if b = bytes.TrimSpace(b); len(b) > 0 && b[0] == '"' {
		var command string
		if err := json.Unmarshal(b, &command); err != nil {
			return err
		}
		*a = Accept{Checks: []Check{{Kind: CheckCommand, Run: command}}}
		return nil
	}
	type bare Accept
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode((*bare)(a))
}

// Fault returns what is wrong with checks, in words for whoever wrote them, or "".
func (a *Accept) Fault() string {
	switch {
	case a == nil:
		return ""
	case len(a.Checks) == 0 || len(a.Checks) > MaxChecks:
		return fmt.Sprintf("accept has %d checks, want 1 to %d", len(a.Checks), MaxChecks)
	case a.MaxAttempts < 0 || a.MaxAttempts > MaxClaims:
		return fmt.Sprintf("accept.max_attempts is %d, want 1 to %d", a.MaxAttempts, MaxClaims)
	case len(a.Protect) > MaxProtect:
		return fmt.Sprintf("accept.protect has %d patterns, the limit is %d", len(a.Protect), MaxProtect)
	}
	schemas := 0
	for i, c := range a.Checks {
		if fault := c.fault(); fault != "" {
			return fmt.Sprintf("accept.checks[%d]: %s", i, fault)
		}
		if schemas += len(c.Schema); schemas > MaxCheckSchemas {
			return fmt.Sprintf("accept.checks[%d]: the schemas up to here have %d bytes, the limit is %d", i, schemas,
				MaxCheckSchemas)
		}
	}
	for _, p := range a.Protect {
		if fault := pathFault("pattern", p); fault != "" {
			return "accept.protect: " + fault
		}
	}
	return ""
}

// Also returns the checks of both, those of a first: all must pass, and what one protects is protected for all. The
// smaller number of attempts holds.
func (a *Accept) Also(b *Accept) *Accept {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return &Accept{Checks: slices.Concat(a.Checks, b.Checks), Protect: slices.Concat(a.Protect, b.Protect),
		MaxAttempts: min(a.Attempts(), b.Attempts())}
}

// Attempts is how often a step may be claimed to be done.
func (a *Accept) Attempts() int {
	if a.MaxAttempts > 0 {
		return a.MaxAttempts
	}
	return DefaultClaims
}

// StepClaimedData says that the agent of a step calls it done. The checks decide.
type StepClaimedData struct {
	Event string `json:"event"`
	Step  string `json:"step_id"`
	// Claim is the number of the claim within its step, from 1; at most Most are made.
	Claim int `json:"claim"`
	Most  int `json:"max_claims"`
	// Turns of the step when it was claimed.
	Turns   int      `json:"turns"`
	Checks  []Check  `json:"checks"`
	Protect []string `json:"protect,omitempty"`
}

// CheckResult is the evidence of one check of a claim.
type CheckResult struct {
	Event string `json:"event"`
	Step  string `json:"step_id"`
	Claim int    `json:"claim"`
	// Check is the place of the check in the claim, from 1; Name is what it is called.
	Check     int       `json:"check"`
	CheckKind CheckKind `json:"kind"`
	Name      string    `json:"name"`
	// Tree is the SHA-256 (hex) of the files as the agent left them, empty where a failed check has none. All checks of a
	// claim that pass have the same. Base is the commit that protected files were taken from, Restored the first of them
	// that the agent had changed, added or removed, and Commit what a git check found checked out.
	Tree     string   `json:"tree"`
	Base     string   `json:"base,omitempty"`
	Restored []string `json:"restored,omitempty"`
	// GitTree is the tree that a commit of the files that were checked has, in a run that works in git: a commit with
	// another tree is not delivered.
	GitTree string `json:"git_tree,omitempty"`
	Commit  string `json:"commit,omitempty"`
	// Judged is the SHA-256 of the output that a schema or an expression was held against, Gate where a person decided,
	// and Child the run of the reviewer.
	Judged string `json:"judged,omitempty"`
	Gate   string `json:"gate_id,omitempty"`
	Child  string `json:"sub_agent_id,omitempty"`
	// ExitCode is nil where the check came to none.
	ExitCode *int `json:"exit_code,omitempty"`
	// Output is the end of what the check printed, OutputRef all of it where that is more.
	Output     string `json:"output,omitempty"`
	OutputRef  *Ref   `json:"output_ref,omitempty"`
	DurationMS int64  `json:"duration_ms"`
	// Note says what of the workspace is not among the files that were checked.
	Note string `json:"note,omitempty"`
}

// CheckPassedData says that a check vouches for a claim.
type CheckPassedData struct{ CheckResult }

// CheckFailedData says that a check does not vouch for a claim, and why.
type CheckFailedData struct {
	CheckResult
	Reason string `json:"reason"`
}

// Verified is a check that vouches for what a run made.
type Verified struct {
	Step string    `json:"step_id"`
	Kind CheckKind `json:"kind"`
	Name string    `json:"name"`
	Tree string    `json:"tree"`
	// GitTree is the tree of the commit that is delivered, in a run that works in git.
	GitTree string `json:"git_tree,omitempty"`
}

func (d *StepClaimedData) line() string {
	var names []string
	for _, c := range d.Checks {
		names = append(names, c.String())
	}
	return fmt.Sprintf("step %s claimed to be done (claim %d of %d), to be checked: %s", d.Step, d.Claim, d.Most,
		shorten(strings.Join(names, ", ")))
}

func (d *CheckPassedData) line() string {
	return fmt.Sprintf("check passed on step %s: %s", d.Step, d.Name)
}

// Kind implements Payload.
func (*StepClaimedData) Kind() Kind { return StepClaimed }

// Kind implements Payload.
func (*CheckPassedData) Kind() Kind { return CheckPassed }

// Kind implements Payload.
func (*CheckFailedData) Kind() Kind { return CheckFailed }
