package events

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// MicroUSD is an amount of money in millionths of a US dollar.
type MicroUSD int64

// String writes the amount in dollars: two digits after the point, up to six where they are needed.
func (m MicroUSD) String() string {
	sign, v := "", int64(m)
	if v < 0 {
		sign, v = "-", -v
	}
	cents := strings.TrimRight(fmt.Sprintf("%06d", v%1e6), "0")
	for len(cents) < 2 {
		cents += "0"
	}
	return fmt.Sprintf("%s$%d.%s", sign, v/1e6, cents)
}

// MaxUSD is the largest amount of money that can be asked for or that a price can be, in dollars.
const MaxUSD = 1_000_000

// ParseUSD reads an amount of dollars such as 2.50, rounded to a millionth; it is refused where it is not one, negative
// or above MaxUSD.
func ParseUSD(text string) (MicroUSD, error) {
	v, err := strconv.ParseFloat(strings.TrimPrefix(text, "$"), 64)
	if err != nil || math.IsNaN(v) || v < 0 || v > MaxUSD {
		return 0, fmt.Errorf("%q is not an amount of US dollars such as 2.50, at most %d", shorten(text), MaxUSD)
	}
	return MicroUSD(math.Round(v * 1e6)), nil
}

// Price of a model for a million tokens each. What came from the provider's cache costs Cached instead of Input, what
// was written to it CacheWrite, or Input where that is 0.
type Price struct {
	Input  MicroUSD `json:"input_micro_usd"`
	Output MicroUSD `json:"output_micro_usd"`
	Cached MicroUSD `json:"cached_micro_usd"`
	// CacheWrite is left out of the prices of runs that began before it was known.
	CacheWrite MicroUSD `json:"cache_write_micro_usd,omitempty"`
}

// Lost is what was set aside for model requests of which no one knows what they used: whoever asked was lost before the
// answer came, or the answer was cut in the middle. It counts as used.
type Lost struct {
	Requests int      `json:"requests"`
	Tokens   int64    `json:"tokens"`
	Cost     MicroUSD `json:"cost_micro_usd,omitempty"`
}

// budget puts the budgets of a task into the options, or says what is wrong with them. Nothing is no budget; zero is
// refused, as it could mean both none and nothing at all.
func (t *Task) budget(o *Options) error {
	if t.MaxTokens != nil {
		if *t.MaxTokens < 1 || *t.MaxTokens > maxTokens {
			return fmt.Errorf("max_tokens is %d, want 1 to %d; leave it out for no budget", *t.MaxTokens, int64(maxTokens))
		}
		o.MaxTokens = *t.MaxTokens
	}
	if t.MaxUSD == nil {
		return nil
	}
	usd, err := ParseUSD(string(*t.MaxUSD))
	if err != nil {
		return fmt.Errorf("max_usd: %w", err)
	}
	if usd == 0 {
		return fmt.Errorf("max_usd is %s, want at least 0.000001; leave it out for no budget", *t.MaxUSD)
	}
	o.MaxCost = usd
	return nil
}

const maxTokens = 1 << 50

// USD is an amount of dollars for a task.
func USD(text string) *json.Number { n := json.Number(text); return &n }
