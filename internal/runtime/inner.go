package runtime

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// Limits of what a program reports of one call.
const (
	maxTitle = 512
	maxPaths = 64
	// MaxInput is the most bytes of arguments that are recorded as they are.
	MaxInput = 256 << 10
)

// names of programs for what they do, in small letters.
var names = map[string]string{
	"bash": "bash", "shell": "bash", "execute": "bash", "exec": "bash", "terminal": "bash", "run_shell_command": "bash",
	"command_execution": "bash", "local_shell": "bash",
	"read": "read", "view": "read", "read_file": "read", "notebookread": "read",
	"write": "write", "create": "write", "write_file": "write",
	"edit": "edit", "multiedit": "edit", "notebookedit": "edit", "replace": "edit", "delete": "edit", "move": "edit",
	"apply_patch": "edit", "patch": "edit", "file_change": "edit",
	"grep": "grep", "glob": "grep", "search": "grep", "ls": "grep", "list": "grep",
	"fetch": "web_fetch", "webfetch": "web_fetch", "web_fetch": "web_fetch", "websearch": "web_fetch",
}

// InnerName returns the name under which the log knows what a program calls by another one.
func InnerName(theirs string) string {
	if ours := names[strings.ToLower(theirs)]; ours != "" {
		return ours
	}
	return events.ToolOther
}

// filed are the names of calls that are about a file.
var filed = []string{"edit", "read", "write"}

// commandKeys and pathKeys are the names of the arguments of programs, the first that is there counts.
var (
	commandKeys = []string{"command", "cmd", "script"}
	pathKeys    = []string{"path", "file_path", "filePath", "filepath", "abs_path", "notebook_path", "file", "dir",
		"directory", "old_path", "new_path", "source", "destination", "target"}
)

// Judged is what a program asks for in the form that guards read: the command as shell text, the paths as a list, and
// what the program reported beside it. inside is the workspace as the program sees it: paths in it become relative. A
// shell command that cannot be found in the arguments, or a file that is read or written without a path, makes the call
// one of no known tool.
func Judged(t Tool, inside string) (name string, input json.RawMessage) {
	var raw map[string]any
	d := json.NewDecoder(bytes.NewReader(t.Input))
	d.UseNumber()
	_ = d.Decode(&raw) // what is no object has no arguments that could be read
	name = t.Name
	doc := map[string]any{}
	if title := clip(t.Title, maxTitle); title != "" {
		doc["title"] = title
	}
	if command := commandOf(raw); command != "" {
		doc["command"] = command
	} else if name == "bash" {
		name = events.ToolOther
	}
	if paths := pathsOf(raw, t.Paths, inside); len(paths) > 0 {
		doc["paths"] = paths
	} else if slices.Contains(filed, name) {
		name = events.ToolOther
	}
	if len(t.Input) > 0 && json.Valid(t.Input) && len(t.Input) <= MaxInput {
		doc["reported"] = t.Input
	}
	b, err := json.Marshal(doc)
	if err != nil {
		return events.ToolOther, json.RawMessage(`{}`) // it consists of texts and JSON
	}
	return name, b
}

func commandOf(raw map[string]any) string {
	for _, key := range commandKeys {
		switch v := raw[key].(type) {
		case string:
			return v
		case []any:
			var words []string
			for _, w := range v {
				s, ok := w.(string)
				if !ok {
					return ""
				}
				words = append(words, quoted(s))
			}
			return strings.Join(words, " ")
		}
	}
	return ""
}

// quoted is a word as a shell reads it.
func quoted(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func pathsOf(raw map[string]any, more []string, inside string) []string {
	var out []string
	add := func(p string) {
		if rest, ok := strings.CutPrefix(p, strings.TrimRight(inside, "/")+"/"); ok && inside != "" {
			p = rest
		} else if p == inside && inside != "" {
			p = "."
		}
		if p != "" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	for _, key := range pathKeys {
		if p, ok := raw[key].(string); ok {
			add(p)
		}
	}
	for _, p := range more {
		add(p)
	}
	if len(out) > maxPaths { // so many are judged as one that is nowhere
		return append(out[:maxPaths:maxPaths], "/")
	}
	return out
}

func clip(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "")
}
