// Package outside connects a station with programs of others.
package outside

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/intake"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/client"
)

// Messages has messages from outside start runs.
type Messages struct {
	intake *intake.Intake
	// other is the connection to the server of the messages, nil where that is the station's own.
	other *jet.Conn
}

// NewMessages connects to the server of the messages. own is the connection of the gateway, c its client. Run must be
// called.
func NewMessages(ctx context.Context, cfg service.Messages, own *jet.Conn, c *client.Client,
	log zerolog.Logger) (*Messages, error) {
	st, err := own.Station(c.Station())
	if err != nil {
		return nil, err
	}
	m, source := &Messages{}, own
	if cfg.MessagesURL != "" {
		if m.other, err = jet.Connect(ctx, jet.Config{URL: cfg.MessagesURL, Creds: cfg.MessagesCreds, User: cfg.MessagesUser,
			Password: cfg.MessagesPassword, Name: "inspan-messages", Log: log}); err != nil {
			return nil, err
		}
		source = m.other
	}
	m.intake, err = newIntake(cfg, c, jet.MessagesOf(source), st.Refusals(), log)
	if err != nil && m.other != nil {
		m.other.Close()
	}
	return m, err
}

// Run starts runs until ctx ends, and closes the connection that NewMessages made.
func (m *Messages) Run(ctx context.Context) error {
	if m.other != nil {
		defer m.other.Close()
	}
	return m.intake.Run(ctx)
}
