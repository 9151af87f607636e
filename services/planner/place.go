package planner

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/inspan/inspan/internal/reactor"
	"github.com/inspan/inspan/pkg/events"
)

// checkPlace looks at what a task says of where its work happens.
func (r *Role) checkPlace(t events.Task) error {
	if t.Repo != "" && !r.cfg.Repos {
		return reactor.Refuse("no_repositories", "leave repo out, and clone it into the workspace of a session before, or let the agent do it where its sandbox has a network",
			"this station does not fetch repositories, so the run would work in an empty folder")
	}
	var err error
	switch {
	case t.Ref != "" && t.Repo == "":
		err = errors.New("a ref without a repo")
	case len(t.Repo) > events.MaxAddress || len(t.Ref) > events.MaxAddress:
		err = fmt.Errorf("the repo or the ref has more than %d bytes", events.MaxAddress)
	case strings.HasPrefix(t.Repo, "-") || strings.HasPrefix(t.Ref, "-") || strings.ContainsFunc(t.Repo+t.Ref, unicode.IsControl):
		err = errors.New("the repo or the ref is not an address or a name")
	}
	if err != nil {
		return reactor.Refuse("bad_input", "mend the value and send the task again; docs/events.md lists the fields", "%v", err)
	}
	return nil
}
