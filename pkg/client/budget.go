package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Budgets are the monthly budgets of projects, users and the station.
type Budgets struct{ c *Client }

// NewBudgets returns the budgets of the station of a client.
func NewBudgets(c *Client) Budgets { return Budgets{c} }

// Get returns all budgets, what is used and reserved of them, and which runs wait; the zero value where none was set.
func (bs Budgets) Get(ctx context.Context) (b events.Budgets, err error) {
	row, err := bs.c.st.KV(topology.SessionBucket).Get(ctx, events.BudgetRow)
	if errors.Is(err, kernel.ErrNotFound) {
		return b, nil
	}
	if err == nil {
		err = json.Unmarshal(row, &b)
	}
	if err != nil {
		return b, fmt.Errorf("budgets: %w", err)
	}
	return b, nil
}

// Control sets a budget or removes it, and returns all budgets once that is recorded. It returns a *RefusedError with
// the code no_budget or too_many_budgets.
func (bs Budgets) Control(ctx context.Context, ctl events.BudgetControl) (events.Budgets, error) {
	if err := ctl.Check(); err != nil {
		return events.Budgets{}, err
	}
	return controlled(ctx, bs.c, ctl.Action, events.BudgetSubject(bs.c.st.Name()), ctl, bs.Get, events.Budgets.Took)
}
