package agents

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
)

// importCommand is inspan agent import.
type importCommand struct {
	App   *app.App
	flags agentFlags
}

func importCmd(a *app.App) *cobra.Command {
	c := &importCommand{App: a}
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Make an agent file of one written for Claude Code",
		Long: `Reads an agent file of Claude Code (Markdown with name, description, tools and model in its frontmatter) and writes
NAME.prompt. Tools become ours where there is one for the same, patterns such as Bash(git diff:*) become permissions, and what
has no counterpart is named and left out: the agent may do no more here than the file says. FILE may be -.`,
		Example: "  inspan agent import .claude/agents/reviewer.md --model anthropic/claude-sonnet-5-5\n  inspan agent import reviewer.md --name second-reviewer --dir agents",
		Args:    app.Args(1),
		RunE:    c.run,
	}
	fl := cmd.Flags()
	fl.StringVar(&c.flags.Name, "name", "", "name of the agent; the file's if not given")
	fl.StringVar(&c.flags.Model, "model", a.Lookup("MODEL", ""),
		"provider/name; the file's, where it is a whole name, if not given (MODEL)")
	fl.StringVar(&c.flags.dir, "dir", a.Lookup("INSPAN_AGENTS", "agents"), "folder to write it into (INSPAN_AGENTS)")
	fl.BoolVar(&c.flags.force, "force", false, "write over a file of that name")
	return cmd
}

func (a *importCommand) run(_ *cobra.Command, args []string) error {
	return importAgent(a.App, a.flags, args[0])
}

// maxImport bounds what is read of standard input, in bytes.
const maxImport = 2 << 20

func importAgent(a *app.App, f agentFlags, path string) error {
	var data []byte
	var err error
	if path == "-" {
		data, err = io.ReadAll(io.LimitReader(a.In, maxImport))
	} else {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return app.Usage("%w", err)
	}
	name, text, left, err := agentfile.FromClaude(data, f.Name, f.Model)
	if err != nil {
		return app.Usage("%s: %w", path, err)
	}
	f.Name = name
	to := filepath.Join(f.dir, name+".prompt")
	file, err := app.WriteFile(to, text, f.force)
	if err != nil {
		return err
	}
	if file.State == "kept" {
		return app.Usage("%s is there already; --force writes over it, --name makes another agent", to)
	}
	next := howToRun(a, f)
	if a.JSON {
		return a.PrintJSON(map[string]any{"file": file, "name": name, "left_out": app.OrEmpty(left), "next": next})
	}
	p := a.Paint()
	for _, l := range left {
		fmt.Fprintf(a.Err, "left out: %s\n", terminal.Sanitize(l))
	}
	fmt.Fprintf(a.Out, "%s  %s\n", p.Green(fmt.Sprintf("%-8s", file.State)), p.Bold(to))
	a.Pairs([][2]string{{"look at it", p.Cyan(to)}, {"run it", p.Cyan(strings.TrimSpace(next[0]))}})
	return nil
}
