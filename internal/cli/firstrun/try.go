package firstrun

import (
	"context"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/cli/doctor/model"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/catalog"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/service"
)

// what follows a try.
type then int

const (
	useIt then = iota
	again
	another
)

// settings are those in force, with what a person chose.
func (s *setup) settings(got found) (service.Config, error) {
	cfg, err := s.App.Config()
	if err != nil {
		return cfg, err
	}
	if got.base != "" {
		cfg.OpenAIBaseURL = got.base
	}
	p, _ := catalog.Find(got.model)
	switch {
	case got.key.Empty():
	case p.Name == "anthropic":
		cfg.AnthropicKey = got.key
	case p.Name == "gemini":
		cfg.GeminiKey = got.key
	default:
		cfg.OpenAIKey = got.key
	}
	return cfg, nil
}

// try makes one small request of a model and, where that fails, asks what to do.
func (s *setup) try(ctx context.Context, got found) (then, error) {
	cfg, err := s.settings(got)
	if err != nil {
		return another, err
	}
	p := s.App.Paint()
	fmt.Fprintf(s.App.Out, "Asking %s for one word ... ", terminal.Sanitize(got.model))
	took, err := model.Ask(ctx, cfg, got.model)
	if ctx.Err() != nil {
		fmt.Fprintln(s.App.Out)
		return another, context.Canceled
	}
	if err == nil {
		fmt.Fprintln(s.App.Out, p.Green(fmt.Sprintf("it answers, in %s.", took)))
		return useIt, nil
	}
	fmt.Fprintln(s.App.Out, p.Red("no."))
	problem, def := explain(err, got)
	fmt.Fprintln(s.App.Out, s.App.Wrapped("  "+problem, 2))
	fmt.Fprintln(s.App.Out, p.Dim(s.App.Wrapped("  "+terminal.Sanitize(view.Clip(model.Masked(err.Error(), cfg), 300)), 2)))
	answer, err := s.oneOf(ctx, "[r]etry, [k]eep it anyway, choose [a]nother", def, "r", "k", "a")
	switch {
	case err != nil:
		return another, err
	case answer == "r":
		return again, nil
	case answer == "k":
		return useIt, nil
	}
	return another, nil
}

// explain says what an error means, and the answer that most people want then.
func explain(err error, got found) (problem, def string) {
	e, ok := errors.AsType[*llm.Error](err)
	switch {
	case !ok:
		return "That did not work.", "a"
	case e.Class == llm.Auth && got.key.Empty():
		return "The provider refuses the key that is set, or it has no credit.", "a"
	case e.Class == llm.Auth:
		return "The provider refuses this key, or it has no credit. Was all of it pasted?", "r"
	case e.Class == llm.Invalid && e.Status == 404:
		return "The provider does not know this model, or this key may not use it. Name another one.", "r"
	case e.Class == llm.RateLimit:
		return "The key is accepted, and the provider asks to wait.", "k"
	case e.Class == llm.Transient && e.Status == 0:
		return "The provider cannot be reached: is there a network, and a proxy in the way?", "k"
	}
	return "The provider did not answer.", "r"
}
