package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/agentfile"
)

func (a *app) agentImportCmd() *cobra.Command {
	var f agentFlags
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Make an agent file of one written for Claude Code",
		Long: `Reads an agent file of Claude Code (Markdown with name, description, tools and model in its frontmatter) and writes
NAME.prompt. Tools become ours where there is one for the same, patterns such as Bash(git diff:*) become permissions, and what
has no counterpart is told and left out: the agent may do no more here than the file says. FILE may be -.`,
		Example: "  inspan agent import .claude/agents/reviewer.md --model anthropic/claude-sonnet-4-20250514\n  inspan agent import reviewer.md --name second-reviewer --dir agents",
		Args:    args(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.agentImport(f, args[0])
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.Name, "name", "", "name of the agent; the file's if not given")
	fl.StringVar(&f.Model, "model", a.set("MODEL", ""), "provider/name; the file's, where it is a whole name, if not given (MODEL)")
	fl.StringVar(&f.dir, "dir", a.set("INSPAN_AGENTS", "agents"), "folder to write it into (INSPAN_AGENTS)")
	fl.BoolVar(&f.force, "force", false, "write over a file of that name")
	return cmd
}

// maxImport bounds what is read of standard input, in bytes.
const maxImport = 2 << 20

func (a *app) agentImport(f agentFlags, path string) error {
	var data []byte
	var err error
	if path == "-" {
		data, err = io.ReadAll(io.LimitReader(a.in, maxImport))
	} else {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return usage("%w", err)
	}
	name, text, left, err := agentfile.FromClaude(data, f.Name, f.Model)
	if err != nil {
		return usage("%s: %w", path, err)
	}
	f.Name = name
	to := filepath.Join(f.dir, name+".prompt")
	file, err := lay(to, text, f.force)
	if err != nil {
		return err
	}
	if file.State == "kept" {
		return usage("%s is there already; --force writes over it, --name makes another agent", to)
	}
	next := a.howToRun(f)
	if a.json {
		return a.printJSON(map[string]any{"file": file, "name": name, "left_out": orEmpty(left), "next": next})
	}
	p := a.paint()
	for _, l := range left {
		fmt.Fprintf(a.err, "left out: %s\n", harmless(l))
	}
	fmt.Fprintf(a.out, "%s  %s\n", p.green(fmt.Sprintf("%-8s", file.State)), p.bold(to))
	a.pairs([][2]string{{"look at it", p.cyan(to)}, {"run it", p.cyan(strings.TrimSpace(next[0]))}})
	return nil
}
