package main

import (
	"context"
	"math"
	"sync"
)

// rsiPeriod is over how many changes of the price the index is.
const rsiPeriod = 14

// RSI is the relative strength index of prices, the oldest first: 100 - 100 / (1 + average gain / average loss) over
// the last rsiPeriod changes (Wilder 1978, with plain averages). It is 50 where there are too few prices or none moved.
func RSI(prices []float64) float64 {
	if len(prices) <= rsiPeriod {
		return 50
	}
	var gain, loss float64
	last := prices[len(prices)-rsiPeriod-1:]
	for i := 1; i < len(last); i++ {
		if d := last[i] - last[i-1]; d > 0 {
			gain += d
		} else {
			loss -= d
		}
	}
	switch {
	case gain == 0 && loss == 0:
		return 50
	case loss == 0:
		return 100
	}
	return 100 - 100/(1+gain/loss)
}

// waves is a market whose price goes up and down, so that the example needs no network.
type waves struct {
	mu sync.Mutex
	// n and orders are guarded by mu.
	n      int
	orders map[string]Trade
}

// Poll implements Market.
func (w *waves) Poll(context.Context) (MarketData, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
	prices := make([]float64, rsiPeriod+2)
	for i := range prices {
		prices[i] = price(w.n + i)
	}
	return MarketData{Price: prices[len(prices)-1], RSI: math.Round(RSI(prices)*10) / 10}, nil
}

func price(n int) float64 { return math.Round(1e4+1e3*math.Sin(float64(n)/6)) / 100 }

// Order implements Market.
func (w *waves) Order(_ context.Context, key string, t Trade) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.orders == nil {
		w.orders = map[string]Trade{}
	}
	w.orders[key] = t
	return nil
}
