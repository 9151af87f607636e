package agentfile

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/pkg/events"
)

var priceRule = pattern.New(`^[a-z0-9][a-z0-9_-]{0,63}/[^\s*]{0,199}\*?$`)

// ParsePrices reads prices: YAML with a line for each model, in US dollars per million tokens, such as
//
//	anthropic/claude-sonnet-5*: {input: 2, output: 10, cached: 0.20, cache_write: 2.50}
//
// A name that ends with * is for all that begin so; the longest that fits holds. Without cached and cache_write, what
// comes from the provider's cache and what is put there cost as much as input. name is the file's name, for messages.
func ParsePrices(name string, data []byte) (budget.Table, error) {
	p := &parsing{file: name}
	table := p.prices(data)
	if _, err := p.found(); err != nil {
		return nil, err
	}
	return table, nil
}

func (p *parsing) prices(data []byte) budget.Table {
	root := p.yaml(data, MaxFrontmatter)
	if root == nil {
		return nil
	}
	dollars := acts(number(0, events.MaxUSD))
	each := mapping(map[string]field{"input": dollars, "output": dollars, "cached": dollars, "cache_write": dollars})
	table := budget.Table{}
	for _, pr := range root.pairs {
		if !priceRule.MatchString(pr.key) {
			p.fail(&Error{Code: CodeValue, Line: pr.line, Path: shown(pr.key), Message: "the key is not the name of a model",
				Expected: "provider/name, or the beginning of one and *"})
			continue
		}
		p.walk(pr.value, each, inForce)
		price := events.Price{Input: pr.value.get("input").money(), Output: pr.value.get("output").money()}
		for _, key := range []string{"input", "output"} {
			if pr.value.kind == isMap && pr.value.child(key) == nil {
				p.fail(&Error{Code: CodeMissing, Line: pr.line, Path: pr.key + "." + key, Message: "the key is missing",
					Expected: "US dollars per million tokens", Hint: "write 0 for a model that costs nothing"})
			}
		}
		if price.Cached = price.Input; pr.value.child("cached") != nil {
			price.Cached = pr.value.get("cached").money()
		}
		if pr.value.child("cache_write") != nil {
			price.CacheWrite = pr.value.get("cache_write").money()
		}
		table[pr.key] = price
	}
	return table
}

// LoadPrices reads the prices of a file; an empty path is no prices.
func LoadPrices(path string) (budget.Table, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("prices of models: %w", err)
	}
	return ParsePrices(filepath.Base(path), data)
}
