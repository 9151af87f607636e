package executor

import (
	"context"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/executor"
)

// mail reads mailboxes from their rows. A row may be behind its log: then mail comes a turn later. It never shows mail
// that another run of the address was given, since it names the run that is the agent.
func mail(rows kernel.KV) func(context.Context, string) (executor.Mailbox, error) {
	if rows == nil {
		return nil
	}
	return func(ctx context.Context, address string) (executor.Mailbox, error) {
		var s mailbox.State
		_, id, err := events.ParseAddress(address)
		if err != nil {
			return s, err
		}
		row, err := rows.Get(ctx, mailbox.View().Key(id))
		if errors.Is(err, kernel.ErrNotFound) {
			return s, nil
		}
		if err != nil {
			return s, fmt.Errorf("row of address %s: %w", address, err)
		}
		s, _, _ = mailbox.View().Read(row)
		return s, nil
	}
}
