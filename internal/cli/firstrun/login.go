package firstrun

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/doctor/model"
	"github.com/inspan/inspan/internal/core/catalog"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/secret"
)

// loginCommand is inspan login.
type loginCommand struct {
	App     *app.App
	model   string
	untried bool
}

// Login makes inspan login.
func Login(a *app.App) *cobra.Command {
	c := &loginCommand{App: a}
	cmd := &cobra.Command{
		Use: "login [PROVIDER]", Short: "Choose a model and store its key",
		Long: `Asks for a provider of models and its key, which is not shown, tries them with one request of a few tokens, and writes
~/.config/inspan/config.yaml and the key into a file beside it that only you can read. Keys that the environment has, a server
that OPENAI_BASE_URL names, and an Ollama on this machine are found.

Without a terminal the provider is named and the key is read from standard input, so that it is in no command line.`,
		Example: "  inspan login\n  inspan login anthropic < key.txt\n  inspan login openai --model gpt-6-luna --untried < key.txt",
		Args:    app.ArgsBetween(0, 1), ValidArgs: []string{"anthropic", "openai", "gemini"},
		RunE: c.run,
	}
	cmd.Flags().StringVar(&c.model, "model", "",
		"model of new agents and of the built-in one; the provider's usual one if not given")
	cmd.Flags().BoolVar(&c.untried, "untried", false, "store the key without a request to the provider")
	return cmd
}

func (a *loginCommand) run(cmd *cobra.Command, args []string) error {
	ctx, s := cmd.Context(), newSetup(a.App)
	if len(args) == 1 {
		return a.named(ctx, s, args[0])
	}
	if !a.App.CanAsk() {
		return app.Usage("which provider? inspan login PROVIDER < FILE, with one of anthropic, openai, gemini; at a terminal inspan login asks")
	}
	got, err := s.choose(ctx)
	if err != nil {
		return s.left(err)
	}
	if got.model == "" {
		fmt.Fprintln(a.App.Out, "Nothing was changed.")
		return nil
	}
	return s.write(got)
}

// maxKey bounds what is read as a key, in bytes.
const maxKey = 4 << 10

// named stores the key of one provider.
func (a *loginCommand) named(ctx context.Context, s *setup, name string) error {
	p, ok := catalog.Find(name)
	if !ok {
		return app.Usage("unknown provider %q: want anthropic, openai or gemini; a server of your own is set with inspan config set models.openai.base_url URL", name)
	}
	o := offer{title: p.Title, model: p.Model, key: true}
	if a.model != "" {
		o.model = p.Name + "/" + strings.TrimPrefix(a.model, p.Name+"/")
	}
	if a.App.CanAsk() {
		got, ok, err := s.take(ctx, o)
		if err != nil || !ok {
			return s.left(err)
		}
		return s.write(got)
	}
	text, err := io.ReadAll(io.LimitReader(a.App.In, maxKey+1))
	if err != nil {
		return fmt.Errorf("read the key: %w", err)
	}
	got := found{model: o.model, key: secret.New(string(text))}
	if got.key.Empty() || len(text) > maxKey {
		return app.Usage("the key of %s is read from standard input, at most %d bytes: inspan login %s < FILE", p.Title,
			maxKey, p.Name)
	}
	if !a.untried {
		cfg, err := s.settings(got)
		if err != nil {
			return err
		}
		if _, err := model.Ask(ctx, cfg, got.model); err != nil {
			problem, _ := explain(err, got)
			return app.Exit(app.ExitFailed,
				fmt.Errorf("%s was asked with this key, and nothing was stored: %s (%s); --untried stores it all the same",
					got.model, problem, view.Clip(model.Masked(err.Error(), cfg), 300)))
		}
	}
	return s.write(got)
}
