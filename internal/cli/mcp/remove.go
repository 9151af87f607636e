package mcp

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/cli/app"
)

// removeCommand is inspan mcp remove.
type removeCommand struct{ target }

func removeCmd(a *app.App) *cobra.Command {
	c := &removeCommand{target{App: a}}
	cmd := &cobra.Command{
		Use: "remove SERVER --agent NAME", Short: "Take an MCP server and its tools from an agent",
		Long:    `Removes the server from the agent file, its tools from the list of tools, and what is pinned of it.`,
		Example: "  inspan mcp remove files --agent coder",
		Args:    app.Args(1),
		RunE:    c.run,
	}
	c.flags(cmd, false)
	return cmd
}

func (c *removeCommand) run(_ *cobra.Command, args []string) error {
	if err := c.load(); err != nil {
		return err
	}
	if _, err := c.server(args[0]); err != nil {
		return err
	}
	text, err := agentfile.RemoveServer(c.file, c.text, args[0])
	if err != nil {
		return err
	}
	if err := c.store(text, "", nil); err != nil {
		return err
	}
	delete(c.pins.Servers, args[0])
	if len(c.pins.Servers) == 0 {
		err = os.Remove(strings.TrimSuffix(c.file, agentfile.Ext) + agentfile.PinsExt)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	} else {
		_, err = c.pins.Write(c.file)
	}
	if err != nil {
		return fmt.Errorf("the pins of server %s: %w", args[0], err)
	}
	if c.App.JSON {
		return c.App.PrintJSON(map[string]any{"agent": c.found.Name, "file": c.file, "removed": args[0]})
	}
	fmt.Fprintf(c.App.Out, "Server %s is no longer in %s. Register the agent again to have it so in runs.\n", args[0], c.file)
	return nil
}
