package app

import (
	"regexp"
	"strings"
)

// plainWord needs no quotes in a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// ShellWord quotes a word of a command line where a shell needs it.
func ShellWord(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// CommandLine is a command line that reaches the same station as this one, to be copied.
func (a *App) CommandLine(words ...string) string {
	env := ""
	if a.OwnStore != "" && a.OwnStore != a.Folder { // which the next command knows as this one did
		env = "INSPAN_STORE=" + ShellWord(a.OwnStore) + " "
	}
	if a.Local {
		words = append(words, "--local")
	}
	for _, f := range []struct{ name, value string }{{"server", a.Address()}, {"context", a.ContextFlag},
		{"creds", a.Creds}, {"station", a.Station}} {
		if a.Given(f.name) && (a.OwnStore == "" || f.name == "station") {
			words = append(words, "--"+f.name, f.value)
		}
	}
	for i := range words {
		words[i] = ShellWord(words[i])
	}
	return env + "inspan " + strings.Join(words, " ")
}
