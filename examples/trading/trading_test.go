package main

import (
	"bytes"
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/harness"
)

// scripted is a market that shows what a test says.
type scripted struct {
	data   []MarketData
	orders map[string]Trade
}

func (m *scripted) Poll(context.Context) (MarketData, error) {
	d := m.data[0]
	m.data = m.data[1:]
	return d, nil
}

func (m *scripted) Order(_ context.Context, key string, t Trade) error { m.orders[key] = t; return nil }

// sleeping is a clock that counts what it slept.
type sleeping struct{ slept []time.Duration }

func (*sleeping) Now() time.Time { return time.Unix(0, 0) }

func (c *sleeping) Sleep(ctx context.Context, d time.Duration) error {
	c.slept = append(c.slept, d)
	return context.Cause(ctx)
}

func TestTrading(t *testing.T) {
	t.Parallel()
	t.Run("SDK-15 SDK-11 SDK-19 it polls each 5 s, buys below 30, sells above 70, else holds, from 10000", func(t *testing.T) {
		t.Parallel()
		m := &scripted{orders: map[string]Trade{}, data: []MarketData{{100, 29.9}, {100, 30}, {110, 70}, {110, 70.1}, {110, 99}}}
		clock := &sleeping{}
		h := &TradingHarness{market: m, interval: pollInterval, polls: len(m.data)}
		if err := harness.Run(t.Context(), h, config(), harness.WithClock(clock)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range h.StepHistory() {
			got = append(got, s.Output.Action)
			if s.Output.Action != "HOLD" && s.Output.Amount != 0.1 {
				t.Errorf("step %d: amount %v, want 0.1", s.StepNumber, s.Output.Amount)
			}
		}
		// the last one has nothing left to sell
		if text := strings.Join(got, " "); text != "BUY HOLD HOLD SELL HOLD" {
			t.Errorf("got %s", text)
		}
		if s := h.State(); math.Abs(s.Balance-10001) > 1e-9 || s.Position != 0 {
			t.Errorf("got %+v, want 10001: bought at 100, sold at 110", s)
		}
		if len(clock.slept) != 4 || clock.slept[0] != 5*time.Second || len(m.orders) != 2 {
			t.Errorf("slept %v, orders %v", clock.slept, m.orders)
		}
	})
	t.Run("SDK-15 it does not buy once more than maxDrawdown is lost", func(t *testing.T) {
		t.Parallel()
		for balance, want := range map[float64]string{9001: "BUY", 8999: "HOLD"} {
			p := harness.AgentRunParams[TradingState, MarketData, Trade]{Input: MarketData{Price: 100, RSI: 20}, Constraints: harness.Constraints{"maxDrawdown": maxDrawdown}}
			p.Context.State.Balance = balance
			if got, err := trader.Run(t.Context(), p); got.Action != want || err != nil {
				t.Errorf("with %v: got %+v, %v; want %s", balance, got, err, want)
			}
		}
	})
	t.Run("SDK-15 the index is 100 where the price only rises, 0 where it only falls, 50 where nothing is known", func(t *testing.T) {
		t.Parallel()
		line := func(step float64) (all []float64) {
			for i := range rsiPeriod + 1 {
				all = append(all, 100+step*float64(i))
			}
			return all
		}
		for want, prices := range map[float64][]float64{100: line(1), 0: line(-1), 50: line(0)} {
			if got := RSI(prices); got != want {
				t.Errorf("%v: got %v, want %v", prices, got, want)
			}
		}
		if got := RSI(line(1)[1:]); got != 50 {
			t.Errorf("too few prices: got %v", got)
		}
	})
	t.Run("TEST-6 the program runs, and both buys and sells in a wave", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		if err := run(t.Context(), []string{"-polls", "60", "-interval", "0s"}, &out); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"action":"BUY","amount":0.1`, `"action":"SELL","amount":0.1`, `"action":"HOLD"`, "60 polls in 0s"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("the output has no %s:\n%s", want, out.String())
			}
		}
	})
}
