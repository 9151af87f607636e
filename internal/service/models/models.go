// Package models makes the models of the configured providers, for the programs that ask any.
package models

import (
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/provider"
	"github.com/inspan/inspan/internal/service"
)

// Models resolves "provider/name".
type Models interface {
	Model(ref string) (m llm.Model, name string, err error)
}

// New are the models of the configured providers. Nothing is asked of a network before a model is.
func New(c service.Models) Models {
	return provider.New(provider.Config{AnthropicKey: c.AnthropicKey, AnthropicBaseURL: c.AnthropicBaseURL,
		OpenAIKey: c.OpenAIKey, OpenAIBaseURL: c.OpenAIBaseURL, OpenAIAPI: c.OpenAIAPI,
		GeminiKey: c.GeminiKey, GeminiBaseURL: c.GeminiBaseURL, ScriptsDir: c.Scripts,
		Idle: c.ModelIdle})
}
