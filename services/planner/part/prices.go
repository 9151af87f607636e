package part

import (
	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// Prices of models, as the operator and the catalog have them.
type Prices = budget.Table

// PriceOf pins those of the models of agents. With a budget of money every model must have one.
func PriceOf(of Prices, agents map[string]events.Agent, o events.Options) (map[string]events.Price, error) {
	prices, err := of.Pin(agents, budget.Priced(o))
	if err != nil {
		return nil, kernel.Refuse("no_price", "an operator adds the price; or give the run a budget of tokens instead", "%v",
			err)
	}
	return prices, nil
}
