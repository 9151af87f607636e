package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

const (
	// LastRun names the run that was created last and is no child of another one.
	LastRun = "last"
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
		id, ok := newest(all)
		if !ok {
			return "", fmt.Errorf("%q: %w: the station has no run yet; inspan run starts one", ref, client.ErrNotFound)
		}
		return id, nil
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

// newest is the id that LastRun stands for, where there is one; the newest run is the first of all.
func newest(all []run.Info) (id string, ok bool) {
	for _, i := range all {
		if !strings.HasPrefix(i.HarnessID, events.ChildPrefix) {
			return i.HarnessID, true
		}
	}
	return "", false
}
