// Package assign reads the assignments of a management plane, and makes the responses to them.
//
// Promises: the run of an assignment has an id that is made of its work_id, so an assignment that comes again is the
// same run for ever. An assignment says who works on what; it grants nothing that a task does not.
package assign

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

const (
	// MaxAssignment is the most bytes of an assignment, maxResult of the output in a response.
	MaxAssignment = 256 << 10
	maxResult     = 256 << 10
	// maxArtifacts are listed in a response.
	maxArtifacts = 1000
	// sessionPrefix stands before the work_id in the name of the session.
	sessionPrefix = "ses_"
)

// Assignment is a WorkAssignment. Further fields are ignored.
type Assignment struct {
	WorkID       string    `json:"work_id"`
	Orchestrator ID        `json:"orchestrator_run_id"`
	Agent        ID        `json:"agent_id"`
	Task         string    `json:"task"`
	Workspace    Workspace `json:"workspace"`
	// Organization is who the work is for: the project of the run.
	Organization ID `json:"organization"`
}

// Workspace names a git repository, and a branch, tag or commit of it.
type Workspace struct {
	Repo string `json:"repo"`
	Ref  string `json:"ref"`
}

// ID is a text, or a number that is kept as one.
type ID string

// UnmarshalJSON reads a text or a number.
func (id *ID) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err == nil {
		*id = ID(text)
		return nil
	}
	var number json.Number
	if err := json.Unmarshal(b, &number); err != nil {
		return fmt.Errorf("%.32q is neither a text nor a number", b)
	}
	*id = ID(number.String())
	return nil
}

// Read reads an assignment. Its error is about what no response could be sent for.
func Read(data []byte) (Assignment, error) {
	var a Assignment
	if len(data) > MaxAssignment {
		return a, fmt.Errorf("the assignment has %d bytes, the limit is %d", len(data), MaxAssignment)
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return a, fmt.Errorf("the assignment is not read: %w", err)
	}
	if a.WorkID == "" || events.CheckID("session", sessionPrefix+a.WorkID) != nil {
		return a, errors.New("work_id: want 1 to 60 characters of A-Z a-z 0-9 _ and -")
	}
	return a, nil
}

// Fault is why the station cannot take an assignment; nil where its planner is to judge it.
func (a Assignment) Fault() error {
	if a.Organization == "" {
		return nil
	}
	return events.CheckID("organization", string(a.Organization))
}

// lowerText is base32 in small letters, which ids may have.
var lowerText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// TaskOf is the task of an assignment at a station. source names who assigned it.
func (a Assignment) TaskOf(station, source string) events.Task {
	sum := sha256.Sum256(fmt.Appendf(nil, "inspan assignment 1%d:%s%s", len(station), station, a.WorkID))
	return events.Task{ID: "work-" + lowerText.EncodeToString(sum[:])[:26], Agent: string(a.Agent), Task: a.Task,
		Session: sessionPrefix + a.WorkID, Repo: a.Workspace.Repo, Ref: a.Workspace.Ref,
		Orchestrator: string(a.Orchestrator), WorkID: a.WorkID, By: source, Project: string(a.Organization)}
}

// Response is a WorkResponse.
type Response struct {
	WorkID       string `json:"work_id"`
	Orchestrator string `json:"orchestrator_run_id,omitempty"`
	Run          string `json:"run_id,omitempty"`
	// Status is completed or failed.
	Status string `json:"status"`
	Result string `json:"result"`
	Error  string `json:"error,omitempty"`
	// Cut says that the result is only its beginning.
	Cut        bool       `json:"result_cut,omitempty"`
	Artifacts  []Artifact `json:"artifacts"`
	DurationMS int64      `json:"duration_ms"`
	Tokens     int        `json:"tokens"`
	// Withheld says that the station does not send what the run made.
	Withheld bool `json:"result_withheld,omitempty"`
	// Files is the bucket of objects that has copies, Log the object with the events of the run.
	Files string `json:"files,omitempty"`
	Log   string `json:"log,omitempty"`
}

// Artifact is one that the run made. Object is its copy in the bucket of the response; empty where there is none.
type Artifact struct {
	Key    string `json:"key"`
	Size   int64  `json:"size"`
	Object string `json:"object,omitempty"`
}

// ObjectOf is what the copy of an artifact is called. Two assignments of one orchestrator may make the same key.
func (a Assignment) ObjectOf(key string) string { return a.WorkID + "/" + key }

// Withhold takes what the run made out of a response.
func (r Response) Withhold() Response {
	r.Result, r.Cut, r.Artifacts, r.Withheld = "", false, []Artifact{}, true
	return r
}

// ResponseTo is the response once the run has ended.
func (a Assignment) ResponseTo(s run.State, made []events.Artifact) Response {
	r := Response{WorkID: a.WorkID, Orchestrator: string(a.Orchestrator), Run: s.HarnessID, Status: string(s.Status),
		Artifacts: []Artifact{}}
	for _, one := range made[:min(len(made), maxArtifacts)] {
		r.Artifacts = append(r.Artifacts, Artifact{Key: one.Key, Size: one.Size})
	}
	if end := s.Result; end != nil {
		r.Result, r.Error, r.DurationMS, r.Tokens = end.Output, end.Error, end.DurationMS, end.TotalTokens
		if r.Error == "" && !end.Success {
			r.Error = end.FinishReason
		}
	}
	if r.Cut = len(r.Result) > maxResult; r.Cut {
		r.Result = strings.ToValidUTF8(r.Result[:maxResult], "")
	}
	return r
}

// Refused is the response to an assignment that the station does not take.
func (a Assignment) Refused(why error) Response {
	return Response{WorkID: a.WorkID, Orchestrator: string(a.Orchestrator), Status: string(events.Failed),
		Error:     why.Error(),
		Artifacts: []Artifact{}}
}
