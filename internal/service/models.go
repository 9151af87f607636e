package service

import (
	"github.com/inspan/inspan/internal/llm/provider"
	"github.com/inspan/inspan/services/planner"
)

// Models are those of the configured providers. Nothing is asked of a network before a model is.
func Models(c Config) planner.Models {
	return provider.New(provider.Config{AnthropicKey: c.AnthropicKey, AnthropicBaseURL: c.AnthropicBaseURL,
		OpenAIKey: c.OpenAIKey, OpenAIBaseURL: c.OpenAIBaseURL, OpenAIAPI: c.OpenAIAPI,
		GeminiKey: c.GeminiKey, GeminiBaseURL: c.GeminiBaseURL, ScriptsDir: c.Scripts})
}
