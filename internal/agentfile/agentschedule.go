package agentfile

import (
	"path/filepath"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// ScheduleOf reads the schedule that an agent's file asks for, which has the name of the agent and begins its runs. ok
// is false where the file asks for none. It is as strict as ParseSchedule; file is the name for messages.
func ScheduleOf(file string, data []byte) (s Scheduled, ok bool, err error) {
	name := strings.TrimSuffix(filepath.Base(file), Ext)
	p := &parsing{file: file}
	front, _, _, err := split(data)
	if err != nil {
		p.failErr(err)
		_, err = p.found()
		return s, true, err
	}
	root, err := readTree(strings.ReplaceAll(front, "\r\n", "\n"), 2)
	if err != nil {
		p.failErr(err)
		_, err = p.found()
		return s, true, err
	}
	n := root.child("schedule")
	if n == nil {
		return s, false, nil
	}
	p.walk(n, scheduleShape(), inForce)
	if len(p.errs) == 0 {
		s = p.scheduled(n.scheduleFile(name))
	}
	if _, err := p.found(); err != nil {
		return Scheduled{}, true, err
	}
	s.Name, s.Spec.Digest = name, events.HashOf(data)
	return s, true, nil
}

// scheduleFile is the block of an agent's file as the file of a schedule would say it: the agent is this one, and
// "session: true" is the session of the agent's name.
func (n *node) scheduleFile(agent string) *node {
	word := func(text string, at *node) *node {
		return &node{kind: isText, text: text, line: at.line, path: at.path}
	}
	if n.kind == isText {
		n = &node{kind: isMap, line: n.line, path: n.path, pairs: []pair{{key: "cron", line: n.line, value: n}}}
	}
	file := &node{kind: isMap, line: n.line, path: n.path}
	task := &node{kind: isMap, line: n.line, path: n.path,
		pairs: []pair{{key: "agent", line: n.line, value: word(agent, n)}}}
	for _, pr := range n.pairs {
		switch v := pr.value; {
		case pr.key == "session" && v.kind == isBool && !v.yes():
		case pr.key == "session" && v.kind == isBool && n.child("session_id") != nil: // that names it
		case pr.key == "session" && v.kind == isBool:
			task.pairs = append(task.pairs, pair{key: pr.key, line: pr.line, value: word(agent, v)})
		case scheduleTask().fields[pr.key].shape.kinds != nil:
			task.pairs = append(task.pairs, pr)
		default:
			file.pairs = append(file.pairs, pr)
		}
	}
	file.pairs = append(file.pairs, pair{key: "task", line: task.line, value: task})
	return file
}

// scheduleShape is the block "schedule" of an agent's file: the keys of the file of a schedule and those of its task,
// or a cron expression alone.
func scheduleShape() shape {
	s := scheduleFile()
	delete(s.fields, "name")
	for key, f := range scheduleTask().fields {
		s.fields[key] = f
	}
	delete(s.fields, "agent")
	s.fields["session"] = acts(shape{kinds: []kind{isText, isBool}})
	s.kinds = []kind{isText, isMap}
	return s
}
