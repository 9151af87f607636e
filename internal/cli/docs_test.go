package cli_test

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/docs"
	"github.com/inspan/inspan/internal/cli"
	"github.com/inspan/inspan/internal/shell"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
)

// spans are what a page shows as code: a fenced block, or a span within a line.
var spans = regexp.MustCompile("(?s)```[a-z]*\n(.*?)\n```|`([^`\n]+)`")

// TestDocsCommands: what the pages say to type is a command, with flags that it has. That it does what the page says is
// shown elsewhere.
func TestDocsCommands(t *testing.T) {
	t.Parallel()
	root, commands := cli.Root(), 0
	root.InitDefaultCompletionCmd("completion")
	for at, words := range typedIn(t, "inspan") {
		commands++
		if err := typed(root, words[1:]); err != nil {
			t.Errorf("%s: %s: %v", at, strings.Join(words, " "), err)
		}
	}
	t.Logf("%d commands", commands)
	if commands < 300 {
		t.Errorf("only %d commands were found", commands)
	}
}

// typedIn yields the commands of a program with words that the pages and the README show, each with where it stands.
func typedIn(t *testing.T, program string) iter.Seq2[string, []string] {
	t.Helper()
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
	return func(yield func(string, []string) bool) {
		for page, text := range pages {
			for _, m := range spans.FindAllStringSubmatchIndex(text, -1) {
				at := max(m[2], m[4])
				code := text[at:max(m[3], m[5])]
				if !strings.Contains(code, program+" ") {
					continue
				}
				for i, line := range strings.Split(strings.ReplaceAll(code, "\\\n", "  "), "\n") {
					if strings.HasPrefix(line, "inspan edited action") {
						continue // the first line of what a signature covers
					}
					where := fmt.Sprintf("%s:%d", page, 1+strings.Count(text[:at], "\n")+i)
					for _, words := range shell.Parse(strings.TrimPrefix(strings.TrimSpace(line), "$ ")).Commands {
						if len(words) > 1 && words[0] == program && !yield(where, words) {
							return
						}
					}
				}
			}
		}
	}
}

// TestDocsMessages: what the pages say to publish with the NATS CLI is a message that the station knows.
func TestDocsMessages(t *testing.T) {
	t.Parallel()
	kinds := []struct {
		subject *regexp.Regexp
		message func() any
	}{
		{regexp.MustCompile(`^station\.\w+\.task$`), func() any { return new(events.Task) }},
		{regexp.MustCompile(`^station\.\w+\.run\.\w+\.gate\.\w+(\.\w+)?$`), func() any { return new(events.Answer) }},
		{regexp.MustCompile(`^station\.\w+\.run\.\w+\.control$`), func() any { return new(events.Control) }},
		{regexp.MustCompile(`^station\.\w+\.work\.\w+\.control$`), func() any { return new(events.WorkControl) }},
		{regexp.MustCompile(`^station\.\w+\.agent\.\w+\.control$`), func() any { return new(events.MailControl) }},
		{regexp.MustCompile(`^station\.\w+\.halt\.station\.control$`), func() any { return new(events.HaltControl) }},
		{regexp.MustCompile(`^station\.\w+\.budget\.station\.control$`), func() any { return new(events.BudgetControl) }},
		{regexp.MustCompile(`^station\.\w+\.mergequeue\.\w+\.control$`), func() any { return new(events.QueueControl) }},
	}
	messages := 0
	for at, words := range typedIn(t, "nats") {
		i := slices.IndexFunc(words, func(w string) bool { return w == "pub" || w == "req" || w == "request" })
		if i < 0 || len(words) < i+3 || !strings.HasPrefix(words[i+1], "station.") {
			continue
		}
		messages++
		subject, body := words[i+1], words[i+2]
		k := slices.IndexFunc(kinds, func(k struct {
			subject *regexp.Regexp
			message func() any
		}) bool {
			return k.subject.MatchString(subject)
		})
		if k < 0 {
			t.Errorf("%s: no service receives messages on %s", at, subject)
		} else if err := ce.Strict([]byte(body), kinds[k].message()); err != nil {
			t.Errorf("%s: %s on %s: %v", at, body, subject, err)
		}
	}
	t.Logf("%d messages", messages)
	if messages < 15 {
		t.Errorf("only %d messages were found", messages)
	}
}

// TestDocsTargets: what the pages say to make is a target of the Makefile, and what Go is to run or test is a package.
func TestDocsTargets(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for at, words := range typedIn(t, "make") {
		target := words[1] // what follows may say what it does
		if strings.Contains(target, "=") || strings.HasPrefix(target, "-") || strings.ToUpper(target) == target {
			continue
		}
		found++
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(target) + `:`).Match(makefile) {
			t.Errorf("%s: the Makefile has no target %s", at, target)
		}
	}
	for at, words := range typedIn(t, "go") {
		for _, word := range words[2:] {
			path := strings.TrimSuffix(word, "/...")
			if !strings.HasPrefix(path, "./") || strings.ToUpper(path) == path {
				continue
			}
			found++
			if info, err := os.Stat("../../" + path); err != nil || !info.IsDir() {
				t.Errorf("%s: %s: there is no package %s", at, strings.Join(words, " "), path)
			}
		}
	}
	t.Logf("%d targets and packages", found)
	if found < 60 {
		t.Errorf("only %d were found", found)
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
