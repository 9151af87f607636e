package payload

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/inspan/inspan/pkg/events"
)

// Texts are the templates of a task as they are written.
type Texts struct {
	Task, Session, Repo, Ref string
	Variables                map[string]string
}

// Task is a task whose texts are templates.
type Task struct {
	task, session, repo, ref Template
	variables                map[string]Template
}

// ParseTask reads the templates of a task. The error names the key of each that is wrong.
func ParseTask(of Texts) (Task, error) {
	var errs []error
	read := func(key, text string) Template {
		t, err := ParseTemplate(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
		return t
	}
	t := Task{task: read("task", of.Task), session: read("session", of.Session), repo: read("repo", of.Repo),
		ref: read("ref", of.Ref), variables: map[string]Template{}}
	for _, name := range slices.Sorted(maps.Keys(of.Variables)) {
		t.variables[name] = read("variables."+name, of.Variables[name])
	}
	return t, errors.Join(errs...)
}

// Fill puts the values of a payload into a task. The error says what the payload lacks.
func (t Task) Fill(p Payload, to *events.Task) error {
	var errs []error
	fill := func(key string, of Template) string {
		text, err := of.Render(p)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
		return text
	}
	to.Task, to.Session = fill("task", t.task), fill("session", t.session)
	to.Repo, to.Ref = fill("repo", t.repo), fill("ref", t.ref)
	for _, name := range slices.Sorted(maps.Keys(t.variables)) {
		if to.Variables == nil {
			to.Variables = map[string]string{}
		}
		to.Variables[name] = fill("variable "+name, t.variables[name])
	}
	if to.Session != "" {
		errs = append(errs, events.CheckID("session", to.Session))
	}
	return errors.Join(errs...)
}
