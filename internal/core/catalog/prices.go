package catalog

import "github.com/inspan/inspan/pkg/events"

// Row is what a model costs, in US dollars for a million tokens each. Of models that cost more above a length of the
// prompt it is the price below that length.
type Row struct {
	// Model is a reference, or the beginning of several and *.
	Model                             string
	Input, Output, Cached, CacheWrite float64
}

// Source is the page of a provider that has its prices, and the day that the rows are of.
type Source struct{ Page, Day string }

// Sources are those of the rows, by provider.
func Sources() map[string]Source {
	return map[string]Source{
		"anthropic": {"https://platform.claude.com/docs/en/about-claude/pricing", "2026-10-24"},
		"openai":    {"https://developers.openai.com/api/docs/pricing", "2026-10-27"},
		// Of gemini-3.8-flash it announces 1.50 and 7.50 from 2027-01-01 on.
		"gemini": {"https://ai.google.dev/gemini-api/docs/pricing", "2026-10-07"},
	}
}

// Rows are the prices that ship. CacheWrite is that of the shortest time that the provider keeps what it caches, and 0
// where a write costs as much as any input.
func Rows() []Row {
	return []Row{
		{"anthropic/claude-fable-5-1*", 10, 50, 0.25, 12.50},
		{"anthropic/claude-fable-5*", 10, 50, 1, 12.50},
		{"anthropic/claude-opus-5-5*", 4, 20, 0.20, 5},
		{"anthropic/claude-opus-5*", 5, 25, 0.50, 6.25},
		{"anthropic/claude-opus-4-8*", 5, 25, 0.50, 6.25},
		{"anthropic/claude-opus-4-7*", 5, 25, 0.50, 6.25},
		{"anthropic/claude-opus-4-6*", 5, 25, 0.50, 6.25},
		{"anthropic/claude-opus-4-5*", 5, 25, 0.50, 6.25},
		{"anthropic/claude-sonnet-5-5*", 2, 10, 0.10, 2.50},
		{"anthropic/claude-sonnet-5*", 2, 10, 0.20, 2.50},
		{"anthropic/claude-sonnet-4*", 3, 15, 0.30, 3.75},
		{"anthropic/claude-haiku-5-5*", 0.10, 0.50, 0.01, 0.125},
		{"anthropic/claude-haiku-4-5*", 1, 5, 0.10, 1.25},
		{"openai/gpt-6-astra*", 10, 50, 1, 0},
		{"openai/gpt-6-sol*", 2, 10, 0.20, 2.50},
		{"openai/gpt-6-luna*", 0.10, 0.50, 0.01, 0.125},
		{"openai/gpt-6.1-terra*", 1, 5, 0.05, 1.25},
		{"openai/gpt-5.6-terra*", 2, 12, 0.20, 0},
		{"openai/gpt-5.6-luna*", 0.20, 1.20, 0.02, 0},
		{"gemini/gemini-3.8-flash*", 0.75, 3.75, 0.075, 0},
		{"gemini/gemini-3.5-flash-lite*", 0.30, 2.50, 0.03, 0},
		{"gemini/gemini-3.5-flash*", 1.50, 9, 0.15, 0},
		{"gemini/gemini-3.1-pro-preview*", 2, 12, 0.20, 0},
	}
}

// Prices are the rows as runs keep them.
func Prices() map[string]events.Price {
	out := map[string]events.Price{}
	for _, r := range Rows() {
		out[r.Model] = events.Price{Input: micro(r.Input), Output: micro(r.Output), Cached: micro(r.Cached),
			CacheWrite: micro(r.CacheWrite)}
	}
	return out
}

func micro(usd float64) events.MicroUSD { return events.MicroUSD(usd*1e6 + 0.5) }
