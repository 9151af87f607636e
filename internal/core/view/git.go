package view

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Delivery says in one line what became of the work of a run in git, "" where it did not work in git.
func Delivery(d *events.Delivery) string {
	if d == nil {
		return ""
	}
	var parts []string
	switch {
	case d.Pushed && d.RemoteBranch != d.Branch:
		parts = append(parts, fmt.Sprintf("branch %s at %s pushed to %s as %s", Clip(d.Branch, 200), commit(d.Commit),
			Clip(d.Remote, 200), Clip(d.RemoteBranch, 200)))
	case d.Pushed:
		parts = append(parts, fmt.Sprintf("branch %s at %s pushed to %s", Clip(d.Branch, 200), commit(d.Commit),
			Clip(d.Remote, 200)))
	case d.Branch != "" && d.Commit != "":
		parts = append(parts, fmt.Sprintf("branch %s at %s, not pushed", Clip(d.Branch, 200), commit(d.Commit)))
	case d.Branch != "":
		parts = append(parts, "branch "+Clip(d.Branch, 200)+", not delivered")
	}
	if len(d.Merged) > 0 {
		var names []string
		for _, m := range d.Merged {
			names = append(names, m.Branch)
		}
		parts = append(parts, "merged "+Clip(strings.Join(names, ", "), 200))
	}
	for _, c := range d.Conflicts {
		parts = append(parts, fmt.Sprintf("%s is in conflict in %s", Clip(c.Branch, 200), Clip(strings.Join(c.Paths, ", "),
			200)))
	}
	if d.Note != "" {
		parts = append(parts, Clip(d.Note, 300))
	}
	return strings.Join(parts, "; ")
}

// Work says where a run that has not ended works in git, "" where it does not.
func Work(s run.State) string {
	if s.Created == nil || s.Created.Git == nil {
		return ""
	}
	w := s.Created.Git
	text := "on the branch that is checked out"
	switch {
	case w.NewBranch != "" && w.WorkingBranch != "":
		text = fmt.Sprintf("branch %s off %s", Clip(w.NewBranch, 200), Clip(w.WorkingBranch, 200))
	case w.NewBranch+w.WorkingBranch != "":
		text = "branch " + Clip(w.NewBranch+w.WorkingBranch, 200)
	}
	if s.Created.Repo != "" {
		text += " of " + Clip(s.Created.Repo, 200)
	}
	return text
}

// commit is an id as people write it.
func commit(id string) string {
	if len(id) > 12 {
		id = id[:12]
	}
	return Clip(id, 12)
}

// atCommit says in words what a git tool answered: the branch and the commit that it is at; "" where that is no such
// answer.
func atCommit(tool, output string) string {
	var out struct{ Branch, Commit string }
	if !strings.HasPrefix(tool, "git_") || json.Unmarshal([]byte(output), &out) != nil || out.Commit == "" {
		return ""
	}
	if out.Branch == "" {
		return "at " + commit(out.Commit)
	}
	return fmt.Sprintf("%s at %s", Clip(out.Branch, 200), commit(out.Commit))
}
