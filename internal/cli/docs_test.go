package cli_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/docs"
	"github.com/inspan/inspan/internal/cli"
	"github.com/inspan/inspan/internal/shell"
)

// spans are what a page shows as code: a fenced block, or a span within a line.
var spans = regexp.MustCompile("(?s)```[a-z]*\n(.*?)\n```|`([^`\n]+)`")

// TestDocsCommands: what the pages say to type is a command, with flags that it has. That it does what the page says is
// shown elsewhere.
func TestDocsCommands(t *testing.T) {
	t.Parallel()
	pages := map[string]string{}
	err := fs.WalkDir(docs.Pages, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fs.ReadFile(docs.Pages, path)
		pages["docs/"+path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages["README.md"] = string(readme)
	delete(pages, "docs/cli.md") // it is made of the commands
	root, commands := cli.Root(), 0
	root.InitDefaultCompletionCmd("completion")
	for page, text := range pages {
		for _, m := range spans.FindAllStringSubmatchIndex(text, -1) {
			at := max(m[2], m[4])
			code := text[at:max(m[3], m[5])]
			if !strings.Contains(code, "inspan ") {
				continue
			}
			for i, line := range strings.Split(strings.ReplaceAll(code, "\\\n", "  "), "\n") {
				if strings.HasPrefix(line, "inspan edited action") {
					continue // the first line of what a signature covers
				}
				for _, words := range shell.Parse(strings.TrimPrefix(strings.TrimSpace(line), "$ ")).Commands {
					if len(words) < 2 || words[0] != "inspan" {
						continue
					}
					args := words[1:]
					commands++
					if err := typed(root, args); err != nil {
						t.Errorf("%s:%d: inspan %s: %v", page, 1+strings.Count(text[:at], "\n")+i, strings.Join(args, " "), err)
					}
				}
			}
		}
	}
	t.Logf("%d commands in %d pages", commands, len(pages))
	if commands < 300 {
		t.Errorf("only %d commands were found in %d pages", commands, len(pages))
	}
}

// typed returns what is wrong with the words of a command; words in capitals stand for others.
func typed(root *cobra.Command, args []string) error {
	if strings.ToUpper(args[0]) == args[0] || strings.HasPrefix(args[0], "-") && args[0] != "--" {
		return nil // a pattern of a command, or flags of the program itself
	}
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	takes := strings.Contains(cmd.Use, " ") // words of its own
	if cmd == root || cmd.HasSubCommands() && !takes && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && strings.ToUpper(rest[0]) != rest[0] {
		return errors.New("there is no such command")
	}
	for _, arg := range rest {
		name, _, _ := strings.Cut(arg, "=")
		switch {
		case arg == "--" || arg == "-":
			return nil
		case strings.Contains(name, " "): // the value of a flag
		case strings.HasPrefix(name, "--"):
			if f := strings.TrimPrefix(name, "--"); cmd.Flags().Lookup(f) == nil && cmd.InheritedFlags().Lookup(f) == nil && f != "help" && f != "version" {
				return fmt.Errorf("%s has no flag %s", cmd.CommandPath(), name)
			}
		case strings.HasPrefix(name, "-"):
			if f := name[1:2]; cmd.Flags().ShorthandLookup(f) == nil && cmd.InheritedFlags().ShorthandLookup(f) == nil && f != "h" {
				return fmt.Errorf("%s has no flag %s", cmd.CommandPath(), name)
			}
		}
	}
	return nil
}
