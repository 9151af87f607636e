package delivery

import (
	"fmt"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// reviewArgs are the arguments of git_review, reviewed its result, as far as they matter here.
type (
	reviewArgs struct {
		How    string `json:"how"`
		Branch string `json:"branch"`
		Commit string `json:"commit"`
		Target string `json:"target"`
		URL    string `json:"url,omitempty"`
		Title  string `json:"title,omitempty"`
		Body   string `json:"body,omitempty"`
	}
	reviewed struct {
		How    string `json:"how"`
		Number int    `json:"number"`
		URL    string `json:"url"`
		Commit string `json:"commit"`
	}
)

// maxTitle bounds the title of a request for a review, in bytes.
const maxTitle = 200

// askFor asks for a review of what was pushed.
func askFor(s run.State, p progress) reviewArgs {
	r := s.Created.Git.Review
	body := fmt.Sprintf("Commit %s of run %s, by agent %s.", p.Commit, s.HarnessID, s.AgentName)
	if s.Created.WorkID != "" {
		body = fmt.Sprintf("Work item %s. %s", s.Created.WorkID, body)
	}
	title := clip(r.Title, maxTitle)
	if title == "" {
		title = p.RemoteBranch
	}
	return reviewArgs{How: r.How, Branch: p.RemoteBranch, Commit: p.Commit, Target: r.Target, URL: s.Created.Repo,
		Title: title, Body: body}
}

// addReview takes what the forge said in. A review that cannot be asked for is told, and the work stays pushed.
func (p *progress) addReview(r run.CallRecord) {
	p.asked = true
	var v reviewed
	if why := read(r, &v); why != "" {
		p.note("no review was asked for: " + why)
		return
	}
	if v.Commit != p.Commit {
		p.note(fmt.Sprintf("the request for a review is at %s and not at %s", short(v.Commit), short(p.Commit)))
		return
	}
	p.Review = &events.ReviewRequest{How: v.How, Number: v.Number, URL: v.URL}
}
