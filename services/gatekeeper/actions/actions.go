// Package actions reads calls for the guards: what a call is about to do, by its text alone.
//
// Promises: pure. What cannot be read is said to be unclear, never left out: the guards are closed to it.
package actions

import (
	"encoding/json"
	"path"
	"strings"

	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/internal/patch"
	"github.com/inspan/inspan/internal/shell"
)

// Of reads a call for the guards: the commands of a shell text, and the paths that leave the workspace.
func Of(toolName string, input json.RawMessage) guard.Action {
	a, _ := read(toolName, input)
	return a
}

// read is Of, and the files that a shell text runs.
func read(toolName string, input json.RawMessage) (a guard.Action, runs []shell.Run) {
	a.Tool = toolName
	var args map[string]any
	if err := json.Unmarshal(input, &args); err != nil {
		a.Unclear = "the arguments are not a JSON object"
		return a, nil
	}
	if text, ok := args["command"].(string); ok {
		parsed := shell.Parse(text)
		a.Commands, a.Loose, a.Unclear, runs = parsed.Commands, parsed.Loose, parsed.Unclear, parsed.Runs
	}
	var paths []string
	for _, key := range []string{"path", "file", "dir"} {
		if p, ok := args[key].(string); ok {
			paths = append(paths, p)
		}
	}
	if list, ok := args["paths"].([]any); ok {
		for _, p := range list {
			if text, ok := p.(string); ok {
				paths = append(paths, text)
			}
		}
	}
	if text, ok := args["patch"].(string); ok {
		paths = append(paths, patch.Paths(text)...)
	}
	for _, p := range paths {
		a.Paths = append(a.Paths, strings.ReplaceAll(p, `\`, "/"))
		if leaves(p) {
			a.Outside = append(a.Outside, p)
		}
	}
	return a, runs
}

// leaves reports whether a path leads out of the workspace by its text alone. Links are the sandbox's affair.
func leaves(p string) bool {
	clean := path.Clean(strings.ReplaceAll(p, `\`, "/"))
	return strings.HasPrefix(clean, "/") || clean == ".." || strings.HasPrefix(clean, "../") || strings.HasPrefix(clean,
		"~")
}
