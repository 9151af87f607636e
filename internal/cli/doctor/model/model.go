// Package model asks models for one word, to see whether they answer.
//
// Promises: no key is in what it returns and what Masked leaves of it, whatever a provider answers.
package model

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/doctor/report"
	"github.com/inspan/inspan/internal/core/catalog"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/models"
)

const (
	// modelWait is how long an answer may take.
	modelWait = 20 * time.Second
	// askTokens is the most that a model may answer: the least that all providers take.
	askTokens = 16
)

// Findings asks each provider that has a key or an address of its own for one word.
func Findings(ctx context.Context, a *app.App) []report.Finding {
	cfg, err := a.Config()
	if err != nil {
		return nil // reported with the sandboxes that the settings name
	}
	set := map[string]bool{"anthropic": !cfg.AnthropicKey.Empty() || cfg.AnthropicBaseURL != "",
		"openai": !cfg.OpenAIKey.Empty() || cfg.OpenAIBaseURL != "",
		"gemini": !cfg.GeminiKey.Empty() || cfg.GeminiBaseURL != ""}
	var found []report.Finding
	wanted := a.Lookup("MODEL", "")
	for _, p := range catalog.Providers() {
		if !set[p.Name] {
			continue
		}
		ref := p.Model
		for _, other := range []string{a.Lookup("INSPAN_DEFAULT_MODEL", ""), wanted} {
			if strings.HasPrefix(other, p.Name+"/") {
				ref = other
			}
		}
		found = append(found, askModel(ctx, cfg, ref))
	}
	if len(found) == 0 {
		return []report.Finding{{What: "model", State: "none but the scripted one",
			Hint: "set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or OPENAI_BASE_URL for a server that speaks its API"}}
	}
	return found
}

// askModel makes one tiny request. No key is in what it finds, whatever the provider answers.
func askModel(ctx context.Context, cfg service.Config, ref string) report.Finding {
	f := report.Finding{What: "model", Needed: true}
	took, err := Ask(ctx, cfg, ref)
	if err != nil {
		f.State = ref + " does not answer"
		f.Hint = view.Clip(Masked(err.Error(), cfg), 400) +
			"; MODEL=provider/name names another model to try, --no-model tries none"
		return f
	}
	f.OK, f.State = true, fmt.Sprintf("%s answers, in %s", ref, took)
	return f
}

// Ask makes one tiny request of a model, which costs a few tokens. The error is an *llm.Error where the provider or the
// network is its reason; it may quote the provider, so Masked comes before it is printed.
func Ask(ctx context.Context, cfg service.Config, ref string) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, modelWait)
	defer cancel()
	m, name, err := models.New(cfg.Models).Model(ref)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	_, err = m.Ask(ctx, llm.Request{Model: name, Messages: []llm.Message{{Role: llm.User,
		Text: "Answer with the word yes."}}, MaxOutputTokens: askTokens,
		Meta: llm.Meta{Purpose: "turn", Turn: 1}}, nil)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s: %w", modelWait, err)
	}
	return time.Since(begin).Round(time.Millisecond), err
}

// Masked is a text without the keys of models.
func Masked(text string, cfg service.Config) string {
	for _, key := range []secret.Value{cfg.AnthropicKey, cfg.OpenAIKey, cfg.GeminiKey} {
		if !key.Empty() {
			text = strings.ReplaceAll(text, key.Reveal(), "***")
		}
	}
	return text
}
