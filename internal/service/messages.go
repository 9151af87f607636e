package service

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/pkg/events"
)

// Messages: of the gateway, which starts runs of what is published on NATS.
type Messages struct {
	MessagesSubjects []string     `envconfig:"INSPAN_MESSAGES_SUBJECTS" desc:"subjects that agents may subscribe to, such as orders.> or alerts.*.fired, comma separated; empty for none; see messages.md"`
	MessagesURL      string       `envconfig:"INSPAN_MESSAGES_URL" desc:"NATS server of these messages; the station's own where it is empty"`
	MessagesCreds    string       `envconfig:"INSPAN_MESSAGES_CREDS" desc:"credentials file for that server"`
	MessagesUser     string       `envconfig:"INSPAN_MESSAGES_USER" desc:"user for that server"`
	MessagesPassword secret.Value `envconfig:"INSPAN_MESSAGES_PASSWORD" desc:"password for that server; INSPAN_MESSAGES_PASSWORD_FILE names a file with it"`
	MessagesWork     string       `envconfig:"INSPAN_MESSAGES_WORK" desc:"subject of a stream of that server on which a management plane assigns work, such as plane.work.default; empty for none"`
	MessagesWorkDone string       `envconfig:"INSPAN_MESSAGES_WORK_DONE" desc:"subject of a stream before the work_id on which responses are stored, such as plane.done"`
	MessagesWorkMost int          `envconfig:"INSPAN_MESSAGES_WORK_MOST" default:"16" desc:"assignments that one gateway works off at the same time"`
	MessagesFiles    string       `envconfig:"INSPAN_MESSAGES_WORK_FILES" desc:"bucket of objects of that server that is sent what the runs of assignments made; empty for none; see assignments.md"`
	MessagesSync     bool         `envconfig:"INSPAN_MESSAGES_SYNC" default:"true" desc:"send the management plane what runs made; without it a response has no more than how a run ended"`
	MessagesReports  bool         `envconfig:"INSPAN_MESSAGES_SYNC_REPORTS" default:"true" desc:"send it the output and the artifacts of runs"`
	MessagesLogs     bool         `envconfig:"INSPAN_MESSAGES_SYNC_LOGS" desc:"send it the events of runs, too"`
	MessagesRate     int          `envconfig:"INSPAN_MESSAGES_RATE" default:"10" desc:"messages a second that one subscription takes; in a stream the others wait"`
}

// messagesTraits are those of the variables of messages. A project has no say in what starts runs.
func messagesTraits() map[string]trait {
	return map[string]trait{
		"INSPAN_MESSAGES_SUBJECTS":     {key: "messages.subjects"},
		"INSPAN_MESSAGES_URL":          {key: "messages.url"},
		"INSPAN_MESSAGES_CREDS":        {key: "messages.creds", path: true},
		"INSPAN_MESSAGES_USER":         {key: "messages.user"},
		"INSPAN_MESSAGES_PASSWORD":     {key: "messages.password"},
		"INSPAN_MESSAGES_WORK":         {key: "messages.work"},
		"INSPAN_MESSAGES_WORK_DONE":    {key: "messages.work_done"},
		"INSPAN_MESSAGES_WORK_MOST":    {key: "messages.work_most"},
		"INSPAN_MESSAGES_WORK_FILES":   {key: "messages.work_files"},
		"INSPAN_MESSAGES_SYNC":         {key: "messages.sync"},
		"INSPAN_MESSAGES_SYNC_REPORTS": {key: "messages.sync_reports"},
		"INSPAN_MESSAGES_SYNC_LOGS":    {key: "messages.sync_logs"},
		"INSPAN_MESSAGES_RATE":         {key: "messages.rate"},
	}
}

func (m *Messages) check() error {
	var errs []error
	for _, s := range m.MessagesSubjects {
		if err := events.CheckOutsideSubject(s); err != nil {
			errs = append(errs, fmt.Errorf("INSPAN_MESSAGES_SUBJECTS: %q: %w", s, err))
		}
	}
	if len(m.MessagesSubjects) > 0 && m.MessagesRate < 1 {
		errs = append(errs, fmt.Errorf("INSPAN_MESSAGES_RATE is %d, want 1 or more", m.MessagesRate))
	}
	if m.MessagesURL == "" && (m.MessagesCreds != "" || m.MessagesUser != "" || !m.MessagesPassword.Empty()) {
		errs = append(errs, errors.New("INSPAN_MESSAGES_URL is empty, and credentials for it are given: name the server"))
	}
	errs = append(errs, m.checkWork())
	if m.MessagesCreds != "" {
		at, err := filepath.Abs(m.MessagesCreds)
		if err != nil {
			errs = append(errs, fmt.Errorf("INSPAN_MESSAGES_CREDS: %w", err))
		}
		m.MessagesCreds = at
	}
	return errors.Join(errs...)
}

// checkWork returns what is wrong with the settings of assignments.
func (m *Messages) checkWork() error {
	if m.MessagesWork == "" && m.MessagesWorkDone == "" {
		if m.MessagesFiles != "" {
			return errors.New("INSPAN_MESSAGES_WORK_FILES is for assignments: INSPAN_MESSAGES_WORK names their subject")
		}
		return nil
	}
	if m.MessagesLogs && m.MessagesFiles == "" {
		return errors.New("INSPAN_MESSAGES_SYNC_LOGS needs INSPAN_MESSAGES_WORK_FILES, the bucket for them")
	}
	if m.MessagesURL == "" {
		return errors.New("INSPAN_MESSAGES_WORK needs INSPAN_MESSAGES_URL, the server of the management plane")
	}
	if m.MessagesWorkMost < 1 {
		return fmt.Errorf("INSPAN_MESSAGES_WORK_MOST is %d, want 1 or more", m.MessagesWorkMost)
	}
	for name, subject := range map[string]string{"INSPAN_MESSAGES_WORK": m.MessagesWork,
		"INSPAN_MESSAGES_WORK_DONE": m.MessagesWorkDone} {
		err := events.CheckOutsideSubject(subject)
		if err == nil && strings.ContainsAny(subject, "*>") {
			err = errors.New("it has a wildcard")
		}
		if err != nil {
			return fmt.Errorf("%s: %q: %w", name, subject, err)
		}
	}
	if events.SubjectsOverlap(m.MessagesWork, m.MessagesWorkDone+".*") {
		return errors.New("INSPAN_MESSAGES_WORK is one of the subjects of responses: each would be an assignment")
	}
	return nil
}
