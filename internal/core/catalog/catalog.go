// Package catalog is the one table of the models that this program names by itself: which one a provider begins with,
// and what each costs.
//
// Promises: it is data of one day, with its source; a model that is not in it has no price here, which is not a price
// of nothing. A table of prices of an operator goes before it.
package catalog

import "strings"

// Provider is one whose models are asked over a network, with a key.
type Provider struct {
	// Name is how references to its models begin, Title how people call it.
	Name, Title string
	// Model is a good one to begin with, as provider/name.
	Model string
	// Variable holds its key.
	Variable string
	// Keys is where a person gets a key.
	Keys string
}

// Providers in the order in which they are offered.
func Providers() []Provider {
	return []Provider{
		{"anthropic", "Anthropic", "anthropic/claude-sonnet-5-5", "INSPAN_ANTHROPIC_API_KEY",
			"https://platform.claude.com/settings/keys"},
		{"openai", "OpenAI", "openai/gpt-6.1-terra", "INSPAN_OPENAI_API_KEY", "https://platform.openai.com/api-keys"},
		{"gemini", "Google Gemini", "gemini/gemini-3.8-flash", "INSPAN_GEMINI_API_KEY", "https://aistudio.google.com/apikey"},
	}
}

// Find returns a provider by its name, or that of a reference such as "openai/gpt-6.1-terra".
func Find(ref string) (Provider, bool) {
	name, _, _ := strings.Cut(ref, "/")
	for _, p := range Providers() {
		if p.Name == name {
			return p, true
		}
	}
	return Provider{}, false
}

// Standard is the name of its key's variable that other programs use, too.
func (p Provider) Standard() string { return strings.TrimPrefix(p.Variable, "INSPAN_") }
