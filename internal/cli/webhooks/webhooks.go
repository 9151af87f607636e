// Package webhooks has inspan webhook: the files of webhooks that the gateway answers.
package webhooks

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/services/gateway/webhook"
)

// Command makes inspan webhook and the commands below it.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "webhook", Aliases: []string{"webhooks"}, Short: "Make and check the webhooks that start runs",
		Long: `A webhook is a file NAME.toml: calls of POST /hooks/NAME at the gateway start runs if they are signed with its secret. The gateway reads the
files at its start. docs/gateway.md has the keys of a file.`,
		Example: "  inspan webhook create pr --kind github --event pull_request.opened --agent reviewer --task 'Review {{pull_request.number}}'\n  inspan webhook list",
		Args:    cobra.ArbitraryArgs, RunE: app.Group,
	}
	cmd.AddCommand(createCmd(a), listCmd(a), callbacksCmd(a))
	return cmd
}

// folders are where the files and their secrets are.
type folders struct{ hooks, secrets string }

func (f *folders) flags(a *app.App, cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.hooks, "dir", a.Lookup("INSPAN_GATEWAY_WEBHOOKS", "webhooks"),
		"folder of the files (INSPAN_GATEWAY_WEBHOOKS)")
	cmd.Flags().StringVar(&f.secrets, "secrets", a.Lookup("INSPAN_GATEWAY_SECRETS", filepath.Join(a.Folder,
		"webhook-secrets")),
		"folder of the secrets (INSPAN_GATEWAY_SECRETS)")
}

// createCommand is inspan webhook create.
type createCommand struct {
	App *app.App
	folders
	file webhook.File
	kind string
}

func createCmd(a *app.App) *cobra.Command {
	c := &createCommand{App: a}
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a webhook and its secret, and print the secret this once",
		Long: `Makes the file of a webhook and a secret, and prints the secret: give it to the sender, with the address HOST/hooks/NAME and the content
type application/json. Texts may have values of the payload: {{pull_request.number}}.`,
		Example: "  inspan webhook create pr --kind github --event pull_request.opened --agent reviewer --task 'Review {{pull_request.number}}' --session 'pr-{{pull_request.number}}'\n" +
			"  inspan webhook create paid --kind standard-webhooks --event invoice.paid --agent clerk --task 'Book invoice {{data.id}}'",
		Args: app.Args(1), ValidArgsFunction: cobra.NoFileCompletions, RunE: c.run,
	}
	c.flags(a, cmd)
	f := cmd.Flags()
	f.StringVar(&c.kind, "kind", string(webhook.GitHub), "how calls are signed: github, gitlab, standard-webhooks or hmac")
	f.StringSliceVar(&c.file.Events, "event", nil, "event that starts a run, several times or comma separated; * is any")
	f.StringVar(&c.file.Agent, "agent", "", "agent that does the work")
	f.StringVar(&c.file.Task, "task", "", "what it is to do")
	f.StringVar(&c.file.Session, "session", "", "session of its runs")
	f.StringVar(&c.file.Repo, "repo", "", "git repository to work in")
	f.StringVar(&c.file.Ref, "ref", "", "branch, tag or commit of it")
	f.IntVar(&c.file.Autonomy, "autonomy", 0, "1 to 5: how much its runs do without asking; 0 leaves it to the agent")
	f.StringVar(&c.file.Header, "header", "", "header that has the signature, with --kind hmac")
	return cmd
}

// created is what inspan webhook create prints as JSON.
type created struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	Secret string `json:"secret"`
	File   string `json:"file"`
}

func (a *createCommand) run(_ *cobra.Command, args []string) error {
	a.file.Kind = webhook.Kind(a.kind)
	secret, err := webhook.Create(a.hooks, a.secrets, args[0], a.file)
	if err != nil {
		return app.Exit(app.ExitFailed, err)
	}
	out := created{Name: args[0], Path: "/hooks/" + args[0], Secret: secret, File: filepath.Join(a.hooks,
		args[0]+webhook.Ext)}
	if a.App.JSON {
		return a.App.PrintJSON(out)
	}
	a.App.Pairs([][2]string{{"path", out.Path}, {"secret", out.Secret}, {"file", out.File}})
	fmt.Fprintf(a.App.Err,
		"The gateway reads it at its start: INSPAN_GATEWAY_WEBHOOKS=%s INSPAN_GATEWAY_SECRETS=%s inspan up --http 127.0.0.1:8222\n", a.hooks, a.secrets)
	return nil
}

// listCommand is inspan webhook list.
type listCommand struct {
	App *app.App
	folders
}

func listCmd(a *app.App) *cobra.Command {
	c := &listCommand{App: a}
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls",
			"check"}, Short: "List the webhooks of the folder, or say what is wrong with them",
		Example: "  inspan webhook list\n  inspan webhook check --dir webhooks",
		Args:    app.Args(0), RunE: c.run,
	}
	c.flags(a, cmd)
	return cmd
}

func (a *listCommand) run(_ *cobra.Command, _ []string) error {
	hooks, err := webhook.Load(a.hooks, a.secrets)
	if err != nil {
		return err
	}
	l := app.Listing{Heads: []string{"NAME", "KIND", "AGENT", "EVENTS"}, Empty: "There is no webhook in " + a.hooks +
		". inspan webhook create NAME makes one."}
	for _, h := range hooks {
		l.Add(h.Name, map[string]any{"name": h.Name, "kind": h.Kind, "agent": h.Agent, "events": h.Events}, h.Name,
			string(h.Kind), h.Agent, strings.Join(h.Events, ", "))
	}
	return a.App.Print(l)
}
