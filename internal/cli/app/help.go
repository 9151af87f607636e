package app

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
)

// leastHelp is the narrowest that a column of a help text gets; what is narrower is not put into columns.
const leastHelp = 24

// WrapHelp has the help texts of a command, and of those below it, broken between words at the width of the terminal.
// What goes to a pipe or a file stays as it is.
func WrapHelp(a *App, root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if !a.Term.TTY {
			help(cmd, args)
			return
		}
		width, _ := a.Term.Size()
		out := cmd.OutOrStdout()
		var text bytes.Buffer
		cmd.SetOut(&text)
		help(cmd, args)
		cmd.SetOut(out)
		fmt.Fprint(out, narrow(text.String(), width))
	})
}

// twoColumns is a line with a name, a gap, and what it means.
var twoColumns = regexp.MustCompile(`^(\s+\S.*?\s{2,}|  [a-z-]+ )\S`)

// narrow breaks the lines of a help text at a width. Lines of prose that follow each other are one paragraph, where a
// line has two columns the second one stays one, and examples stay whole: people copy them.
func narrow(text string, width int) string {
	var out strings.Builder
	var prose []string
	examples := false
	flush := func() {
		if len(prose) > 0 {
			out.WriteString(strings.Join(filled(strings.Join(prose, " "), width), "\n") + "\n")
			prose = nil
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		examples = line == "Examples:" || examples && strings.HasPrefix(line, " ")
		switch {
		case line != "" && line[0] != ' ' && !strings.HasSuffix(line, ":"):
			prose = append(prose, line)
			continue
		case line != "" && line[0] != ' ':
			prose = append(prose, line)
			flush()
			continue
		}
		flush()
		if !examples {
			line = hung(line, width)
		}
		out.WriteString(line + "\n")
	}
	flush()
	return out.String()
}

// hung breaks a line behind the column that its text begins at.
func hung(line string, width int) string {
	if ansi.StringWidth(line) <= width {
		return line
	}
	at := len(line) - len(strings.TrimLeft(line, " "))
	head := line[:at]
	if m := twoColumns.FindString(line); m != "" {
		head = m[:len(m)-1]
		if at = len(head); width-at < leastHelp {
			at = 8 // the name on a line of its own, and the text below it
			head = strings.TrimRight(head, " ") + "\n" + strings.Repeat(" ", at)
		}
	}
	rest := strings.TrimLeft(line[len(strings.TrimRight(strings.ReplaceAll(head, "\n", ""), " ")):], " ")
	if at >= width {
		return line
	}
	return head + strings.Join(filled(rest, width-at), "\n"+strings.Repeat(" ", at))
}

// filled breaks a text at spaces alone: a hyphen is often that of a flag.
func filled(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case ansi.StringWidth(line)+1+ansi.StringWidth(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return append(lines, line)
}
