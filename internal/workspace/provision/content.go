package provision

import (
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func noteOf(s run.State) string {
	return "for agents and people: inspan export " + s.HarnessID + " tells what is true"
}

func artifactsOf(s run.State) map[string]any {
	return map[string]any{"note": "for people: inspan artifacts list " + s.HarnessID + " tells what is true",
		"run_id": s.HarnessID, "artifacts": artifact.Latest(s)}
}

// tasksOf are the steps of a run as they stand.
func tasksOf(s run.State) map[string]any {
	type task struct {
		ID          string            `json:"id"`
		Description string            `json:"description"`
		Agent       string            `json:"agent"`
		Needs       []string          `json:"needs,omitempty"`
		Status      events.StepStatus `json:"status"`
	}
	tasks := []task{}
	if s.Plan != nil {
		for _, st := range s.Plan.Steps {
			tasks = append(tasks, task{st.ID, st.Description, st.AssignedAgent, st.Dependencies, st.Status})
		}
	}
	return map[string]any{"note": noteOf(s), "run_id": s.HarnessID, "work_id": s.Created.WorkID, "status": s.Status,
		"tasks": tasks}
}

// redirectOf says where the shared truth about work is (WS-10): what is in a workspace is never it.
func redirectOf(s run.State) map[string]any {
	station := s.Identity.Station
	entry := func(bucket, key string) map[string]string {
		return map[string]string{"bucket": bucket, "key": station + "." + key}
	}
	out := map[string]any{"note": noteOf(s), "database": "nats-jetstream", "station": station,
		"facts": topology.Log(station),
		"run":   entry(topology.StateBucket, "run."+s.HarnessID), "work_id": s.Created.WorkID,
		"commands": []string{"inspan export " + s.HarnessID, "inspan logs " + s.HarnessID, "inspan runs"}}
	if s.Created.Session != "" {
		out["session"] = entry(topology.SessionBucket, "session."+s.Created.Session)
	}
	if w := s.Created.Work; w != nil {
		out["work"] = entry(topology.SessionBucket, "work."+w.Work)
	}
	return out
}

// settingsOf is what the agents of a run are held to besides the rules of the station.
func settingsOf(s run.State) map[string]any {
	type settings struct {
		Project  string        `json:"project,omitempty"`
		Role     string        `json:"role,omitempty"`
		Digest   string        `json:"digest"`
		Tools    []string      `json:"tools"`
		Guards   []events.Rule `json:"guards"`
		Hooks    []string      `json:"hooks"`
		Sandbox  string        `json:"sandbox,omitempty"`
		Autonomy int           `json:"autonomy"`
		MaxSteps int           `json:"max_steps"`
	}
	all := map[string]settings{}
	for name, a := range s.Agents {
		one := settings{a.Project, a.Role, a.Digest, a.Tools, a.Guards, []string{}, a.Sandbox.Mode, s.Options.Autonomy,
			s.Options.MaxSteps}
		for _, h := range a.Hooks {
			one.Hooks = append(one.Hooks, h.ID)
		}
		all[name] = one
	}
	return map[string]any{"note": noteOf(s), "run_id": s.HarnessID, "agents": all}
}

// contextOf is what an agent reads that began without its usual prompt (WS-11): who it is, what it is to do, and where
// it finds out how far that is.
func contextOf(s run.State, folder string) string {
	c := s.Created
	var b strings.Builder
	fmt.Fprintf(&b, "# If you began without instructions, read this\n\nStation %s, run %s, workspace %s.\n",
		s.Identity.Station, s.HarnessID, c.Workspace)
	if c.Session != "" {
		fmt.Fprintf(&b, "Session %s: what was said before is in %s.\n", c.Session, historyFile)
	}
	if c.WorkID != "" {
		fmt.Fprintf(&b, "Work item %s.\n", c.WorkID)
	}
	if a, ok := s.Agent(c.Agent); ok && a.Project != "" {
		fmt.Fprintf(&b, "You are %s, role %s of project %s.\n", a.Name, a.Role, a.Project)
	} else {
		fmt.Fprintf(&b, "You are %s.\n", c.Agent)
	}
	task := c.Task
	if len(task) > maxTaskShown {
		task = strings.ToValidUTF8(task[:maxTaskShown], "") + "\n... cut off; the whole: inspan export " + s.HarnessID
	}
	fmt.Fprintf(&b, "\n## The task\n\n%s\n\n## How far it is\n\n%s has the steps and how they stand, %s what was made.\n",
		task, tasksFile, artifactsFile)
	if folder != "" {
		fmt.Fprintf(&b, "Each call that has ended has its output in %s/logs: do not do again what is done there.\n", folder)
	}
	fmt.Fprintf(&b, "Files here may be behind. The truth is in the station; %s tells where, and %s what you may do.\nGo on with the first step that is not completed.\n", redirectFile, settingsFile)
	return b.String()
}
