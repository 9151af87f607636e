package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

const (
	// LastRun names the run that was created last.
	LastRun = "last"
	// completeWait is how long a shell waits for the station when a person presses the tab key.
	completeWait = 2 * time.Second
	// maxMatches is how many runs an ambiguous reference lists.
	maxMatches = 5
)

// takes is what the first argument of a command names, as its usage line says.
func takes(cmd *cobra.Command) string {
	words := strings.Fields(cmd.Use)
	if len(words) < 2 {
		return ""
	}
	return strings.Trim(words[1], "[]")
}

// runRef replaces the first argument of a command that takes a run: LastRun, and the beginning or the end of the id of
// one run, stand for its whole id. An id that exists always means itself.
func runRef(ctx context.Context, c *client.Client, cmd *cobra.Command, args []string) ([]string, error) {
	if len(args) == 0 || takes(cmd) != "RUN" {
		return args, nil
	}
	id, err := ResolveRun(ctx, c, args[0])
	if err != nil {
		return nil, err
	}
	return append([]string{id}, args[1:]...), nil
}

// ResolveRun returns the id that a person means; what names no run is returned as it is, for the command to say so.
func ResolveRun(ctx context.Context, c *client.Client, ref string) (string, error) {
	if !events.ValidID(ref) {
		return ref, nil
	}
	if _, err := c.Runs().Get(ctx, ref); !errors.Is(err, client.ErrNotFound) {
		return ref, nil //nolint:nilerr // the command meets the same error and reports it
	}
	all, err := c.Runs().List(ctx)
	if err != nil {
		return ref, nil //nolint:nilerr // as above: the run is not found
	}
	if ref == LastRun {
		if len(all) == 0 {
			return "", fmt.Errorf("%q: %w: the station has no run yet; inspan run starts one", ref, client.ErrNotFound)
		}
		return all[0].HarnessID, nil
	}
	var found []string
	for _, i := range all {
		if strings.HasPrefix(i.HarnessID, ref) || strings.HasPrefix(i.HarnessID, "run-"+ref) || strings.HasSuffix(i.HarnessID,
			ref) {
			found = append(found, i.HarnessID)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > maxMatches:
		return "", Usage("%q fits %d runs, among them %s: write more of the id", ref, len(found),
			strings.Join(found[:maxMatches], ", "))
	case len(found) > 1:
		return "", Usage("%q fits %s: write more of the id", ref, strings.Join(found, ", "))
	}
	return ref, nil
}

// Complete gives the commands of a tree shell completion of the runs, gates, agents and sessions of the station.
func (a *App) Complete(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		a.Complete(sub)
	}
	if cmd.ValidArgsFunction != nil {
		return
	}
	list := map[string]func(context.Context, *client.Client) ([]string, error){
		"RUN": runNames, "GATE|RUN[/GATE": gateNames, "AGENT": agentNames,
	}[takes(cmd)]
	if p := cmd.Parent(); takes(cmd) == "NAME" && p != nil && p.Name() == "session" {
		list = sessionNames
	}
	if list == nil {
		return
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return a.names(cmd.Context(), typed, list), cobra.ShellCompDirectiveNoFileComp
	}
}

// names asks the station, and names nothing where there is none: a person who presses the tab key reads no error.
func (a *App) names(ctx context.Context, typed string, list func(context.Context, *client.Client) ([]string,
	error)) []string {
	ctx, cancel := context.WithTimeout(ctx, completeWait)
	defer cancel()
	c, err := a.Connect(ctx)
	if err != nil {
		return nil
	}
	defer c.Close()
	all, err := list(ctx, c)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(name string) bool { return !strings.HasPrefix(name, typed) })
}

func runNames(ctx context.Context, c *client.Client) ([]string, error) {
	all, err := c.Runs().List(ctx)
	names := []string{}
	for i, r := range all {
		if i == 0 {
			names = append(names, cobra.CompletionWithDesc(LastRun, "the newest run, "+r.HarnessID))
		}
		names = append(names, cobra.CompletionWithDesc(r.HarnessID, describe(r)))
	}
	return names, err
}

func describe(r run.Info) string {
	return view.Clip(fmt.Sprintf("%s, %s, %s", r.Status, r.AgentName, r.CreatedAt.Local().Format("Jan 2 15:04")), 60)
}

func gateNames(ctx context.Context, c *client.Client) ([]string, error) {
	all, err := c.Gates().List(ctx)
	names := []string{}
	for _, w := range all {
		names = append(names, cobra.CompletionWithDesc(w.Gate.ID, view.Clip(w.Run.HarnessID+": "+w.Gate.Description, 80)))
	}
	return names, err
}

func agentNames(ctx context.Context, c *client.Client) ([]string, error) {
	all, err := c.Agents(ctx)
	names := []string{}
	for _, a := range all {
		names = append(names, cobra.CompletionWithDesc(a.Name, view.Clip(a.Description, 60)))
	}
	return names, err
}

func sessionNames(ctx context.Context, c *client.Client) ([]string, error) {
	all, err := c.Sessions().List(ctx)
	names := []string{}
	for _, s := range all {
		names = append(names, s.ID)
	}
	return names, err
}
