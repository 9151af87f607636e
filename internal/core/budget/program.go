package budget

import (
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// leastOutput is the least output that a request is cut to, in tokens: with less the budget is spent.
const leastOutput = 256

// EstimateInput is what the text of a request of a program counts as, in tokens.
func EstimateInput(size int) int64 { return int64(size)/bytesPerTok + perRequest }

// AskProgram says whether a request of a program for a model may be passed on, "provider/name", and with how much
// output at most: what it asks for, or what the budget has left. need is what is to be set aside.
func AskProgram(s run.State, ref string, in, out int64) (need Amount, most int64, v Verdict) {
	p, priced := Table(s.Prices).Find(ref)
	weigh := func(out int64) Amount { return Amount{Tokens: saturated(in, out), Cost: mostCost(p, in, out)} }
	if Priced(s.Options) && !priced {
		return Amount{}, 0, Verdict{Reason: events.FinishCost, Text: NoPrice(ref).Error()}
	}
	if !Limited(s) {
		return weigh(out), out, Verdict{}
	}
	left := Left(s)
	fits := func(out int64) bool {
		n := weigh(out)
		return (s.Options.MaxTokens == 0 || n.Tokens <= left.Tokens) && (s.Options.MaxCost == 0 || n.Cost <= left.Cost) &&
			!short(s, Amount{}, n).Short
	}
	least := min(out, leastOutput)
	if !fits(least) {
		v = over(s, Amount{Tokens: s.Options.MaxTokens - left.Tokens, Cost: s.Options.MaxCost - left.Cost}, weigh(least))
		if v.Reason == "" {
			v = Verdict{Reason: events.FinishCost, Text: short(s, Amount{}, weigh(least)).Text}
		}
		return Amount{}, 0, v
	}
	most = least
	for step := out - least; step > 0; step /= 2 { // the most that fits, as more never does where less does not
		for most+step <= out && fits(most+step) {
			most += step
		}
	}
	return weigh(most), most, Verdict{}
}

// PaidFor is what a request of a program cost.
func PaidFor(s run.State, ref string, u Usage) events.MicroUSD {
	p, _ := Table(s.Prices).Find(ref)
	return costOf(p, u)
}
