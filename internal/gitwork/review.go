package gitwork

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/inspan/inspan/internal/forge"
	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/pkg/tool"
)

type reviewArgs struct {
	How    string `json:"how"`
	Branch string `json:"branch"`
	Commit string `json:"commit"`
	Target string `json:"target"`
	URL    string `json:"url"`
	Title  string `json:"title"`
	Body   string `json:"body"`
}

// review asks the forge for a review of a branch, or, where it is only asked for what was done, finds the request; nil
// where there is none. The working tree takes no part in it.
func (w *work) review(ctx context.Context, input json.RawMessage, only bool) (*forge.Review, error) {
	var a reviewArgs
	if err := json.Unmarshal(input, &a); err != nil {
		return nil, tool.Fail(tool.Invalid, "fix the arguments and retry", err)
	}
	if w.cfg.Forges == nil {
		return nil, tool.Fail(tool.Permanent, "let reviewers look at the branch",
			errors.New("this toolrunner speaks to no forge"))
	}
	if a.URL == "" {
		a.URL = w.job.Repo
	}
	for _, name := range []string{a.Branch, a.Target} {
		if err := git.CheckName(name); err != nil {
			return nil, err
		}
	}
	ask := forge.Ask{How: a.How, Repo: a.URL, Branch: a.Branch, Commit: a.Commit, Target: a.Target, Title: a.Title,
		Body: a.Body}
	if only {
		return w.cfg.Forges.Find(ctx, ask)
	}
	if err := w.current(ctx); err != nil {
		return nil, err
	}
	return w.cfg.Forges.Open(ctx, ask)
}
