// Package main is a harness with a rhythm of its own: it polls a market every 5 seconds, has an agent decide by the
// relative strength index, and trades. It shows an Execute without an end.
//
//	go run ./examples/trading -polls 5 -interval 1s
//	go run ./examples/trading -station nats://127.0.0.1:4222 -id trading-1
package main

import (
	"context"
	"iter"
	"time"

	"github.com/inspan/inspan/pkg/harness"
)

// TradingState is what the harness has: money, and pieces of what it trades in.
type TradingState struct {
	Balance  float64 `json:"balance"`
	Position float64 `json:"position"`
}

// MarketData is what one poll shows.
type MarketData struct {
	Price float64 `json:"price"`
	RSI   float64 `json:"rsi"`
}

// Trade is a decision. Action is BUY, SELL or HOLD.
type Trade struct {
	Action string  `json:"action"`
	Amount float64 `json:"amount"`
}

// The rules of the example.
const (
	startBalance = 10000
	tradeAmount  = 0.1
	maxDrawdown  = 0.1
	buyBelow     = 30
	sellAbove    = 70
	pollInterval = 5 * time.Second
)

// Market shows prices and carries trades out.
type Market interface {
	Poll(ctx context.Context) (MarketData, error)
	// Order carries a trade out. The same key twice is one order.
	Order(ctx context.Context, key string, t Trade) error
}

// TradingHarness polls a market for ever, or polls times where that is above 0.
type TradingHarness struct {
	harness.BaseHarness[TradingState, MarketData, Trade]
	market   Market
	interval time.Duration
	polls    int
}

// Execution is what Execute gets.
type Execution = harness.Execution[TradingState, MarketData, Trade]

// config is what the harness begins with.
func config() harness.HarnessConfig[TradingState] {
	return harness.HarnessConfig[TradingState]{InitialState: TradingState{Balance: startBalance}, MaxContextSteps: 5}
}

// IsComplete implements harness.Harness.
func (h *TradingHarness) IsComplete() bool { return h.polls > 0 && h.CurrentStep() >= h.polls }

// Execute implements harness.Harness. It finds all that it needs in the state, so it can begin without replay.
func (h *TradingHarness) Execute(ctx context.Context, x *Execution) iter.Seq2[harness.StepYield[MarketData, Trade],
	error] {
	return func(yield func(harness.StepYield[MarketData, Trade], error) bool) {
		for {
			data, trade, err := h.round(ctx, x)
			if !yield(harness.Pair(data, trade), err) {
				return
			}
			if err := x.Sleep(ctx, h.interval); err != nil {
				return // the context ended; Run says so
			}
		}
	}
}

// round is one poll and what follows from it.
func (h *TradingHarness) round(ctx context.Context, x *Execution) (MarketData, Trade, error) {
	data, err := harness.Do(ctx, x, harness.Effect[MarketData]{Name: "poll", Class: harness.Read,
		Do: func(ctx context.Context, _ harness.Call) (MarketData, error) { return h.market.Poll(ctx) }})
	if err != nil {
		return data, Trade{}, err
	}
	trade, err := x.Ask(ctx, trader, data, harness.Constraints{"maxDrawdown": maxDrawdown})
	if err != nil || trade.Action == "HOLD" {
		return data, trade, err
	}
	_, err = harness.Do(ctx, x, harness.Effect[bool]{Name: "order", Class: harness.Idempotent,
		Do: func(ctx context.Context, c harness.Call) (bool, error) {
			return true, h.market.Order(ctx, c.Key, trade)
		}})
	if err != nil {
		return data, trade, err
	}
	x.Update(func(s TradingState) TradingState { return s.after(data, trade) })
	x.Summarize(trade.Action)
	return data, trade, nil
}

// after is the state after a trade at a price.
func (s TradingState) after(d MarketData, t Trade) TradingState {
	switch t.Action {
	case "BUY":
		s.Balance, s.Position = s.Balance-d.Price*t.Amount, s.Position+t.Amount
	case "SELL":
		s.Balance, s.Position = s.Balance+d.Price*t.Amount, s.Position-t.Amount
	}
	return s
}

// trader decides by the index alone. It does not buy once more than the share maxDrawdown of the start is lost.
var trader = harness.NewAgent(harness.AgentConfig[TradingState, MarketData, Trade]{Name: "Trader", Effect: harness.Read,
	Run: func(_ context.Context, p harness.AgentRunParams[TradingState, MarketData, Trade]) (Trade, error) {
		s, hold := p.Context.State, Trade{Action: "HOLD"}
		most, bounded := p.Constraints["maxDrawdown"].(float64)
		lost := (startBalance - s.Balance - s.Position*p.Input.Price) / startBalance
		switch {
		case p.Input.RSI < buyBelow && s.Balance >= p.Input.Price*tradeAmount && (!bounded || lost <= most):
			return Trade{"BUY", tradeAmount}, nil
		case p.Input.RSI > sellAbove && s.Position >= tradeAmount:
			return Trade{"SELL", tradeAmount}, nil
		}
		return hold, nil
	}})
