package budget

import (
	"cmp"
	"maps"
	"math/big"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// Table holds prices by model reference, "provider/name". A reference that ends with * is for all that begin so.
type Table map[string]events.Price

// Find returns the price of a model: its own, else that of the longest beginning.
func (t Table) Find(ref string) (p events.Price, ok bool) {
	if p, ok = t[ref]; ok {
		return p, true
	}
	longest := -1
	for pattern, price := range t {
		if begin, all := strings.CutSuffix(pattern, "*"); all && len(begin) > longest && strings.HasPrefix(ref, begin) {
			p, ok, longest = price, true, len(begin)
		}
	}
	return p, ok
}

// Pin is the part of the table that agents need. With money, a model without a price is an error; without, it is left
// out.
func (t Table) Pin(agents map[string]events.Agent, money bool) (map[string]events.Price, error) {
	var pinned map[string]events.Price
	for _, a := range agents {
		if a.Runtime != nil && a.Runtime.Model != nil { // its program names the models
			for ref, p := range t {
				if strings.HasPrefix(ref, a.Runtime.Model.API+"/") {
					pinned = pin(pinned, ref, p)
				}
			}
			continue
		}
		for ref := range strings.SplitSeq(a.Model, ",") {
			p, ok := t.Find(ref)
			if !ok && money {
				return nil, NoPrice(ref)
			}
			if !ok {
				continue
			}
			pinned = pin(pinned, ref, p)
		}
	}
	return pinned, nil
}

func pin(pinned map[string]events.Price, ref string, p events.Price) map[string]events.Price {
	if pinned == nil {
		pinned = map[string]events.Price{}
	}
	pinned[ref] = p
	return pinned
}

// Over is a table with the prices of base for the models that t has none for. A price of t goes before every price of
// base that fits, also where that names the model more exactly.
func (t Table) Over(base Table) Table {
	all := maps.Clone(base)
	for ref := range base {
		if _, own := t.Find(strings.TrimSuffix(ref, "*")); own {
			delete(all, ref)
		}
	}
	if all == nil {
		all = Table{}
	}
	maps.Copy(all, t)
	return all
}

// Usage of one answer, in tokens. Cached and Written, to the provider's cache, are parts of Input.
type Usage struct{ Input, Output, Cached, Written int }

// Paid says by which reference an answer is paid for, and what it cost. refs is the agent's model, or its list; of a
// list it is the one that answered, and where that cannot be told, the dearest.
func Paid(prices map[string]events.Price, refs, provider, model string, u Usage) (ref string, c events.MicroUSD) {
	if !strings.Contains(refs, ",") {
		return refs, costOf(prices[refs], u)
	}
	for r := range strings.SplitSeq(refs, ",") {
		by, name, _ := strings.Cut(r, "/")
		if by == provider && model != "" && strings.HasPrefix(model, name) {
			return r, costOf(prices[r], u)
		}
	}
	for r := range strings.SplitSeq(refs, ",") {
		if k := costOf(prices[r], u); ref == "" || k > c {
			ref, c = r, k
		}
	}
	return ref, c
}

func costOf(p events.Price, u Usage) events.MicroUSD {
	return cost(p, int64(u.Input), int64(u.Output), int64(u.Cached), int64(u.Written))
}

// written is the price of what is put into the provider's cache.
func written(p events.Price) events.MicroUSD { return cmp.Or(p.CacheWrite, p.Input) }

// mostCost is that of so many tokens if the provider puts all of the input into its cache and that is dearer.
func mostCost(p events.Price, in, out int64) events.MicroUSD {
	return max(cost(p, in, out, 0, 0), cost(p, in, out, 0, in))
}

// cost of so many tokens, rounded up; cached and stored are parts of in.
func cost(p events.Price, in, out, cached, stored int64) events.MicroUSD {
	cached = min(max(cached, 0), in)
	stored = min(max(stored, 0), in-cached)
	sum := new(big.Int)
	for _, part := range [][2]int64{{in - cached - stored, int64(p.Input)}, {cached, int64(p.Cached)},
		{stored, int64(written(p))},
		{out, int64(p.Output)}} {
		sum.Add(sum, new(big.Int).Mul(big.NewInt(max(part[0], 0)), big.NewInt(max(part[1], 0))))
	}
	sum.Add(sum, big.NewInt(perMillion-1))
	sum.Quo(sum, big.NewInt(perMillion))
	if !sum.IsInt64() {
		return events.MicroUSD(1<<63 - 1)
	}
	return events.MicroUSD(sum.Int64())
}

// perMillion: prices are for so many tokens.
const perMillion = 1_000_000
