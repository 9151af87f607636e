package trust

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/pkg/events"
)

// DescribeSchedules says what a folder of schedules begins and when, and which commands it runs.
func DescribeSchedules(p Part) (out []string) {
	for _, file := range slices.Sorted(maps.Keys(p.Files)) {
		s, err := agentfile.ParseSchedule(file, p.Files[file])
		if err != nil {
			out = append(out, "schedule file "+file+": cannot be used (inspan schedule push --dry-run)")
			continue
		}
		out = append(out, describeSchedule(s)...)
	}
	return out
}

// DescribeAgentSchedules says which agents of a folder of agents begin runs by themselves, where a station is run with
// it (inspan up), and when.
func DescribeAgentSchedules(p Part) (out []string) {
	for _, file := range slices.Sorted(maps.Keys(p.Files)) {
		if !isAgent(file) {
			continue
		}
		if s, ok, err := agentfile.ScheduleOf(file, p.Files[file]); ok && err == nil {
			out = append(out, describeSchedule(s)...)
		}
	}
	return out
}

func describeSchedule(s agentfile.Scheduled) (out []string) {
	say := func(format string, args ...any) {
		out = append(out, "schedule "+s.Name+": "+fmt.Sprintf(format, args...))
	}
	t := s.Spec.Task
	say("agent %s, %s", t.Agent, s.Spec.When())
	if t.Repo != "" {
		say("works in repository %s", t.Repo)
	}
	if t.Session != "" {
		say("works in session %s", t.Session)
	}
	if t.Autonomy > events.DefaultOptions().Autonomy {
		say("autonomy %d", t.Autonomy)
	}
	for _, ph := range s.Spec.Phases {
		say("phase %s for agent %s", ph.Name, cmp.Or(ph.Agent, t.Agent))
		if ph.Accept == nil {
			continue
		}
		for _, c := range ph.Accept.Checks {
			if c.Kind == events.CheckCommand {
				say("phase %s is done once this succeeds: %s", ph.Name, c.Run)
			}
		}
	}
	return out
}
