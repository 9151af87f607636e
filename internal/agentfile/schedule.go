package agentfile

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Scheduled is a schedule as a file describes it.
type Scheduled struct {
	Name string
	Spec events.ScheduleSpec
	// Line of the file that says when it fires.
	Line int
}

// ParseSchedule reads the file of a schedule, whose times are left to be checked. It is as strict as Parse. Times
// without a zone are in that of the file, or in UTC. name is the file's name, for messages and for the schedule where
// the file names none.
func ParseSchedule(name string, data []byte) (Scheduled, error) {
	p := &parsing{file: name}
	s := p.scheduled(p.yaml(data, MaxFrontmatter))
	if _, err := p.found(); err != nil {
		return Scheduled{}, err
	}
	s.Spec.Digest = events.HashOf(data)
	s.Name = cmp.Or(s.Name, strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)))
	return s, nil
}

// scheduleFile is the whole file of a schedule.
func scheduleFile() shape {
	return mapping(map[string]field{
		"name": acts(text()), "cron": acts(text()), "every": acts(text()), "at": acts(text()), "timezone": acts(text()),
		"until":        acts(text()),
		"missed":       one(string(events.MissedSkip), string(events.MissedOne), string(events.MissedAll)),
		"missed_limit": acts(whole(1, events.MaxMissedLimit)),
		"overlap": one(string(events.OverlapSkip), string(events.OverlapQueue), string(events.OverlapReplace),
			string(events.OverlapAllow)),
		"jitter":              acts(duration(time.Second, 6*time.Hour)),
		"mode":                one(string(events.ModeNormal), string(events.ModeDream), string(events.ModeOvernight)),
		"checkpoint_interval": acts(duration(time.Second, 24*time.Hour)),
		"phases": acts(list(mapping(map[string]field{"name": acts(text()), "agent": acts(text()),
			"task": acts(textUpTo(events.MaxSchedule)), "accept": acts(acceptShape())}), events.MaxPhases)),
		"workspace": acts(mapping(map[string]field{"repo": acts(text()), "ref": acts(text()), "branch": acts(text())})),
		"budget": acts(mapping(map[string]field{"usd": acts(number(1e-6, events.MaxUSD)),
			"tokens": acts(whole(1, 1<<53))})),
		"task": acts(scheduleTask()),
	})
}

// scheduleTask is the task of a schedule.
func scheduleTask() shape {
	return mapping(map[string]field{
		"agent": acts(text()), "task": acts(textUpTo(events.MaxSchedule)), "session": acts(text()), "session_id": acts(text()),
		"session_mode": one(string(events.Sequential), string(events.Parallel)), "model": acts(text()), "repo": acts(text()),
		"ref": acts(text()), "branch": acts(text()), "timeout": acts(text()), "autonomy": acts(whole(1, 5)),
		"variables": acts(shape{kinds: []kind{isMap}, each: &shape{kinds: []kind{isText, isInt, isFloat, isBool}}}),
	})
}

// one is a text that is one of some.
func one(words ...string) field { return acts(oneOf(words...)) }

func (p *parsing) scheduled(root *node) (s Scheduled) {
	if root == nil {
		return s
	}
	p.walk(root, scheduleFile(), inForce)
	word := func(path ...string) string {
		if n := root.get(path...); n != nil && n.kind != isMap && n.kind != isList {
			return n.text
		}
		return ""
	}
	s.Name = word("name")
	if s.Name != "" && !events.ValidID(s.Name) {
		p.failAt(root.child("name"), Error{Code: CodeValue, Message: "the name cannot be one of a schedule",
			Expected: "1 to 64 characters of A-Z a-z 0-9 _ and -", Actual: shown(s.Name)})
	}
	t := &s.Spec.Task
	t.Agent, t.Task, t.Session = word("task", "agent"), word("task", "task"), cmp.Or(word("task", "session"),
		word("task", "session_id"))
	t.SessionMode, t.Model = events.SessionMode(word("task", "session_mode")), word("task", "model")
	t.Repo, t.Ref = cmp.Or(word("task", "repo"), word("workspace", "repo")), cmp.Or(word("task", "ref"),
		word("workspace", "ref"))
	t.Branch, t.Timeout = cmp.Or(word("task", "branch"), word("workspace", "branch")), word("task", "timeout")
	t.Autonomy, _ = strconv.Atoi(word("task", "autonomy"))
	t.MaxTokens, _ = strconv.ParseInt(word("budget", "tokens"), 10, 64)
	t.MaxUSD = word("budget", "usd")
	if v := root.get("task", "variables"); v != nil {
		for _, pr := range v.pairs {
			if t.Variables == nil {
				t.Variables = map[string]string{}
			}
			t.Variables[pr.key] = pr.value.text
		}
	}
	s.Spec.Cron, s.Spec.Every, s.Spec.TimeZone = word("cron"), word("every"), word("timezone")
	s.Spec.Missed, s.Spec.Overlap = events.MissedPolicy(word("missed")), events.OverlapPolicy(word("overlap"))
	s.Spec.MissedLimit, _ = strconv.Atoi(word("missed_limit"))
	s.Spec.Jitter, s.Spec.CheckpointInterval = word("jitter"), word("checkpoint_interval")
	if s.Spec.Mode = events.RunMode(word("mode")); s.Spec.Mode == events.ModeNormal {
		s.Spec.Mode = ""
	}
	if list := root.child("phases"); list != nil && list.kind == isList {
		for _, n := range list.items {
			s.Spec.Phases = append(s.Spec.Phases, events.Phase{Name: n.child("name").str(), Agent: n.child("agent").str(),
				Task: n.child("task").str(), Accept: acceptOf(p, n.child("accept"))})
		}
	}
	p.moments(root, &s.Spec)
	s.Line = root.line
	for _, key := range []string{"cron", "every", "at"} {
		if n := root.child(key); n != nil {
			s.Line = n.line
			break
		}
	}
	return s
}

// moments reads the times of a schedule. A zone is one of cron; with at and until alone it is only that of their texts.
func (p *parsing) moments(root *node, s *events.ScheduleSpec) {
	zone := time.UTC
	if s.TimeZone != "" {
		in, err := time.LoadLocation(s.TimeZone)
		if err != nil {
			p.failAt(root.child("timezone"), Error{Code: CodeValue, Message: "the time zone is not known",
				Expected: "a name such as Europe/Berlin", Actual: shown(s.TimeZone)})
			return
		}
		if zone = in; s.Cron == "" {
			s.TimeZone = ""
		}
	}
	for key, to := range map[string]**time.Time{"at": &s.At, "until": &s.Until} {
		n := root.child(key)
		if n == nil || n.kind != isText {
			continue
		}
		at, err := Moment(n.text, zone)
		if err != nil {
			p.failAt(n, Error{Code: CodeValue, Message: "the value is no time",
				Expected: "such as 2026-12-01T08:00:00Z or 2026-12-01 08:00",
				Actual:   shown(n.text)})
			continue
		}
		*to = &at
	}
}

// Moment reads a time; one without a zone is in zone, and a day is its beginning.
func Moment(text string, zone *time.Location) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.UTC(), nil
	}
	for _, form := range []string{"2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02"} {
		if at, err := time.ParseInLocation(form, text, zone); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time such as \"2026-12-01 08:00\" or 2026-12-01T08:00:00Z", text)
}
