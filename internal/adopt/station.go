package adopt

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/inspan/inspan/internal/agentfile"
)

// Station reads the folder of a Station, or of one of its environments: agent files, workflows, and the settings of
// the harness. Servers of tools are named and not taken: whoever adds one looks at what it starts.
func Station(root *os.Root) (*Report, error) {
	f, err := open(root)
	if err != nil {
		return nil, err
	}
	var prompts, flows []string
	for _, at := range f.files {
		switch base := path.Base(at); {
		case path.Ext(at) == ".prompt":
			prompts = append(prompts, at)
		case strings.HasSuffix(base, ".workflow.yaml"), strings.HasSuffix(base, ".workflow.yml"), strings.HasSuffix(base,
			".formula.toml"):
			flows = append(flows, at)
		case base == "config.yaml", base == "config.yml":
			f.harness(at)
		case base == "template.json", base == ".mcp.json", base == "mcp.json":
			f.refuse("tool servers", base, at,
				errors.New("servers start programs and have secrets: add each with inspan mcp add NAME"))
		case base == "variables.yml", base == "variables.yaml":
			f.refuse("variables", base, at,
				errors.New("they may be secrets: give them to runs with --var, or to the services as files"))
		}
	}
	f.prompts(prompts)
	f.formulas(flows)
	return &f.Report, nil
}

// harness takes the section harness of a configuration, and its permissions as the policy of the station.
func (f *folder) harness(at string) {
	data, err := f.read(at)
	if err != nil {
		f.refuse("settings", path.Base(at), at, err)
		return
	}
	section, left := topLevel(data, "harness")
	for _, key := range left {
		f.refuse("settings", key, at, errors.New("only the section harness is taken"))
	}
	if section == nil {
		return
	}
	permissions, rest := within(section, "permissions")
	if permissions != nil {
		f.permissions(at, permissions)
	}
	if len(bytes.TrimSpace(bytes.TrimPrefix(rest, []byte("harness:")))) == 0 {
		return
	}
	if _, warnings, err := agentfile.ReadSettings(path.Base(at), rest, nil); err != nil {
		f.refuse("settings", "harness", at, first(err))
	} else {
		var notes []string
		if permissions != nil {
			notes = append(notes, "its permissions are rules in policy.yaml")
		}
		for _, w := range warnings {
			notes = append(notes, fmt.Sprintf("%s: %s", w.Path, w.Message))
		}
		f.file("settings", "harness", at, "config.yaml", rest, notes...)
	}
}

// permissions turns permissions of all agents into rules, with the parser of those of one agent.
func (f *folder) permissions(at string, section []byte) {
	var tools bytes.Buffer
	tools.WriteString("---\nname: probe\nmodel: scripted/x\ntools: [bash, read, write, edit, glob, grep]\n")
	tools.Write(section)
	tools.WriteString("---\nx\n")
	a, warnings, err := agentfile.Parse("probe.prompt", tools.Bytes())
	if err != nil {
		f.refuse("rules", "permissions", at, first(err))
		return
	}
	var notes []string
	for _, w := range warnings {
		notes = append(notes, fmt.Sprintf("%s: %s", w.Path, w.Message))
	}
	rules := a.Guards
	for i := range rules {
		rules[i].Reason = "harness.permissions of " + printable(at)
	}
	f.policy(at, rules, append(notes, "INSPAN_POLICY of all services names it")...)
}

// topLevel cuts a section out of YAML by its lines, with its key, and names the other keys. It reads no alias and
// expands nothing: what it returns is read by a parser with limits.
func topLevel(data []byte, key string) (section []byte, left []string) {
	in := false
	for line := range bytes.Lines(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))) {
		if name, is := keyOf(line); is {
			if in = name == key; !in && len(left) < 64 {
				left = append(left, printable(name))
			}
		}
		if in {
			section = append(section, line...)
		}
	}
	return section, left
}

// keyOf is the key that a line without indent begins with.
func keyOf(line []byte) (string, bool) {
	if len(line) == 0 || strings.ContainsRune(" \t#-\n}]", rune(line[0])) {
		return "", false
	}
	name, _, is := strings.Cut(string(line), ":")
	return strings.Trim(strings.TrimSpace(name), `"'`), is
}

// within takes a part out of a section, with its own lines moved to the left; rest is the section without it.
func within(section []byte, key string) (part, rest []byte) {
	in, indent := false, -1
	for line := range bytes.Lines(section) {
		body := bytes.TrimLeft(line, " ")
		at := len(line) - len(body)
		blank := len(bytes.TrimSpace(body)) == 0 || body[0] == '#'
		if indent < 0 && at > 0 && !blank {
			indent = at
		}
		if at == indent && !blank {
			name, is := keyOf(body)
			in = is && name == key
		}
		if at == 0 && !blank {
			in = false
		}
		if in {
			part = append(part, line[min(indent, at):]...)
		} else {
			rest = append(rest, line...)
		}
	}
	return part, rest
}
