package run

import (
	"maps"

	"github.com/inspan/inspan/pkg/events"
)

// spend counts the use of a model. Events of before models were named in them count in the totals alone.
func (s *State) spend(model, agent string, in, out, cached int, cost events.MicroUSD) {
	s.Tokens.Input += in
	s.Tokens.Output += out
	s.Tokens.Cached += cached
	s.Cost += cost
	if model == "" {
		return
	}
	spent := append([]Spend(nil), s.Spent...)
	at := 0
	for at < len(spent) && (spent[at].Model != model || spent[at].Agent != agent) {
		at++
	}
	if at == len(spent) {
		_, priced := s.Prices[model]
		spent = append(spent, Spend{Model: model, Agent: agent, Priced: priced})
	}
	row := &spent[at]
	row.Turns++
	row.Input += in
	row.Output += out
	row.Cached += cached
	row.Cost += cost
	s.Spent = spent
}

// lose counts what was set aside for requests without an answer.
func (s *State) lose(l *events.Lost) {
	if l != nil {
		s.Lost.Requests += l.Requests
		s.Lost.Tokens += l.Tokens
		s.Lost.Cost += l.Cost
	}
}

// pinPrices adds prices to those of the run.
func (s *State) pinPrices(prices map[string]events.Price) {
	if len(prices) == 0 {
		return
	}
	all := maps.Clone(s.Prices)
	if all == nil {
		all = make(map[string]events.Price, len(prices))
	}
	maps.Copy(all, prices)
	s.Prices = all
}
