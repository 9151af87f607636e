package agentfile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// AddServer returns the text of an agent file with one more MCP server, of whose tools the agent gets those with these
// names or globs. All other lines stay byte for byte, comments too. It returns ErrByHand, wrapped, for a layout that
// cannot be kept.
func AddServer(name string, data []byte, s events.MCPServer, tools []string) ([]byte, error) {
	at := "mcp." + s.Name + "."
	edits := []Edit{}
	set := func(key string, value *node) { edits = append(edits, Edit{Key: at + key, Value: flowText(value)}) }
	if len(s.Command) > 0 {
		set("command", texts(s.Command))
	}
	if s.URL != "" {
		set("url", &node{kind: isText, text: s.URL})
	}
	if len(s.Headers) > 0 {
		set("headers", pairsOf(s.Headers))
	}
	if len(s.Env) > 0 {
		set("env", pairsOf(s.Env))
	}
	if s.TimeoutMS > 0 {
		set("timeout", &node{kind: isText, text: (time.Duration(s.TimeoutMS) * time.Millisecond).String()})
	}
	if len(s.Effects) > 0 {
		effects := &node{kind: isMap}
		for _, e := range s.Effects {
			effects.pairs = append(effects.pairs, pair{key: e.Tool, value: &node{kind: isText, text: e.Effect}})
		}
		set("effects", effects)
	}
	for i, t := range tools {
		tools[i] = mcpPrefix + s.Name + "/" + t
	}
	return editFront(name, data, edits, func(has []string) []string {
		return append(has, slices.DeleteFunc(slices.Clone(tools), func(t string) bool { return slices.Contains(has, t) })...)
	})
}

// SetServerCommand returns the text of an agent file with another command of an MCP server.
func SetServerCommand(name string, data []byte, server string, command []string) ([]byte, error) {
	return editFront(name, data, []Edit{{Key: "mcp." + server + ".command", Value: flowText(texts(command))}},
		func(has []string) []string { return has })
}

// RemoveServer returns the text of an agent file without an MCP server and what it names of its tools.
func RemoveServer(name string, data []byte, server string) ([]byte, error) {
	return editFront(name, data, []Edit{{Key: "mcp." + server, Unset: true}}, func(has []string) []string {
		return slices.DeleteFunc(slices.Clone(has), func(t string) bool { return strings.HasPrefix(t, mcpPrefix+server+"/") })
	})
}

func texts(all []string) *node {
	list := &node{kind: isList}
	for _, t := range all {
		list.items = append(list.items, &node{kind: isText, text: t})
	}
	return list
}

func pairsOf(m map[string]string) *node {
	out := &node{kind: isMap}
	for _, key := range sortedKeys(m) {
		out.pairs = append(out.pairs, pair{key: key, value: &node{kind: isText, text: m[key]}})
	}
	return out
}

func sortedKeys(m map[string]string) (keys []string) {
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// editFront changes the frontmatter of an agent file, and the list of tools in it.
func editFront(name string, data []byte, edits []Edit, tools func(has []string) []string) ([]byte, error) {
	front, _, _, err := split(data)
	if err != nil {
		return nil, named(name, err)
	}
	begin := strings.Index(string(data), "\n") + 1
	text := []byte(front)
	forms := map[string]Form{"tools": FormList}
	for _, e := range edits {
		if text, err = EditSettings(name, text, forms, e); err != nil {
			return nil, err
		}
	}
	root, err := readTree(strings.ReplaceAll(string(text), "\r\n", "\n"), 1)
	if err != nil {
		return nil, named(name, err)
	}
	has := root.child("tools").words()
	if want := tools(has); !slices.Equal(has, want) {
		if text, err = editTools(name, text, root, want); err != nil {
			return nil, err
		}
	}
	return slices.Concat(data[:begin], text, data[begin+len(front):]), nil
}

// editTools writes another list of tools: line by line where each has a line of its own.
func editTools(name string, text []byte, root *node, want []string) ([]byte, error) {
	list := root.child("tools")
	byLine := list != nil && len(list.items) > 0
	lines := strings.SplitAfter(string(text), "\n")
	if byLine {
		for _, item := range list.items {
			byLine = byLine && strings.HasPrefix(strings.TrimSpace(lines[item.line-1]), "- ")
		}
	}
	if !byLine {
		return EditSettings(name, text, map[string]Form{"tools": FormList}, Edit{Key: "tools", Value: flowText(texts(want))})
	}
	last := list.items[len(list.items)-1].line
	indent := lines[last-1][:indentOf(lines[last-1])]
	ending := "\n"
	if strings.HasSuffix(lines[last-1], "\r\n") {
		ending = "\r\n"
	}
	if !strings.HasSuffix(lines[last-1], "\n") {
		lines[last-1] += ending
	}
	has := list.words()
	for _, t := range want {
		if !slices.Contains(has, t) {
			lines[last-1] += indent + "- " + quoted(t) + ending
		}
	}
	for _, item := range list.items {
		if !slices.Contains(want, item.text) {
			at := lines[item.line-1]
			_, added, _ := strings.Cut(at, "\n") // what was put behind it
			lines[item.line-1] = added
		}
	}
	if len(want) == 0 {
		return EditSettings(name, text, nil, Edit{Key: "tools", Unset: true})
	}
	out := strings.Join(lines, "")
	after, err := readTree(strings.ReplaceAll(out, "\r\n", "\n"), 1)
	if err != nil || !slices.Equal(after.child("tools").words(), want) {
		return nil, fmt.Errorf("%s: %w", name, ErrByHand)
	}
	return []byte(out), nil
}
