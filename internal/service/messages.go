package service

import (
	"errors"
	"fmt"
	"path/filepath"

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
	MessagesRate     int          `envconfig:"INSPAN_MESSAGES_RATE" default:"10" desc:"messages a second that one subscription takes; in a stream the others wait"`
}

// messagesTraits are those of the variables of messages. A project has no say in what starts runs.
func messagesTraits() map[string]trait {
	return map[string]trait{
		"INSPAN_MESSAGES_SUBJECTS": {key: "messages.subjects"},
		"INSPAN_MESSAGES_URL":      {key: "messages.url"},
		"INSPAN_MESSAGES_CREDS":    {key: "messages.creds", path: true},
		"INSPAN_MESSAGES_USER":     {key: "messages.user"},
		"INSPAN_MESSAGES_PASSWORD": {key: "messages.password"},
		"INSPAN_MESSAGES_RATE":     {key: "messages.rate"},
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
	if m.MessagesCreds != "" {
		at, err := filepath.Abs(m.MessagesCreds)
		if err != nil {
			errs = append(errs, fmt.Errorf("INSPAN_MESSAGES_CREDS: %w", err))
		}
		m.MessagesCreds = at
	}
	return errors.Join(errs...)
}
