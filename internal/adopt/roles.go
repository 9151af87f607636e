package adopt

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/runtime"
	"github.com/inspan/inspan/pkg/events"
)

// townRole are the keys of a role of Gas Town.
type townRole struct {
	Role    string `toml:"role"`
	Scope   string `toml:"scope"`
	Nudge   string `toml:"nudge"`
	Prompt  string `toml:"prompt_template"`
	Session struct {
		Pattern string `toml:"pattern"`
		WorkDir string `toml:"work_dir"`
		Sync    *bool  `toml:"needs_pre_sync"`
		Start   string `toml:"start_command"`
	} `toml:"session"`
	Env    map[string]string `toml:"env"`
	Health map[string]any    `toml:"health"`
}

// entry takes an entry of the registry of runtimes.
func (t town) entry(at, name string, data []byte, notes []string) {
	to := path.Join("agents", "runtimes", name+".toml")
	err := events.CheckID("runtime", name)
	if err == nil {
		_, err = runtime.Parse(path.Base(to), data)
	}
	if err != nil {
		t.refuse("runtime", printable(name), at, err)
		return
	}
	t.file("runtime", name, at, to, data, notes...)
}

// roles takes roles of the town and of its rigs. What a role starts is a definition here, which is made where the
// program is one that is known.
func (t town) roles(rigs map[string]rig) {
	for _, at := range t.some("roles/*.toml", "*/roles/*.toml") {
		name := strings.TrimSuffix(path.Base(at), ".toml")
		data, err := t.read(at)
		var r townRole
		if err == nil {
			d := toml.NewDecoder(bytes.NewReader(data))
			d.DisallowUnknownFields()
			err = d.Decode(&r)
		}
		project := ""
		if strings.Count(at, "/") == 2 {
			project, _, _ = strings.Cut(at, "/")
		}
		if err == nil {
			_, _, err = events.ParseAddress(cmp.Or(project, townProject) + "/" + name + "/x")
		}
		if err != nil {
			t.refuse("role", printable(name), at, err)
			continue
		}
		t.role(at, project, name, r, rigs[project].names)
	}
}

func (t town) role(at, project, name string, r townRole, names []string) {
	words := strings.NewReplacer("{rig}", "{project}", "{town}", "{root}")
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, printable(fmt.Sprintf(format, args...))) }
	var b strings.Builder
	fmt.Fprintf(&b, "# Made of %s by inspan import.\n", printable(at))
	if r.Role != "" {
		fmt.Fprintf(&b, "role = %s\n", text(r.Role))
	}
	starts := t.starts(at, name, r.Session.Start, note)
	if starts != "" {
		fmt.Fprintf(&b, "agent = %s\n", text(name))
	}
	if len(names) > 0 {
		fmt.Fprintf(&b, "names = %s\n", list(names))
	}
	switch {
	case strings.HasSuffix(r.Prompt, ".tmpl"):
		note("prompt_template names a file of the program: write its text into the definition")
	case r.Prompt != "":
		fmt.Fprintf(&b, "prompt_template = %s\n", text(words.Replace(r.Prompt)))
	}
	if r.Nudge != "" {
		note("nudge is not taken: mail and work items wake an agent")
	}
	if r.Session.Pattern != "" {
		note("session.pattern is {project}_{role}_{name}: no two agents have one session")
	}
	if r.Session.WorkDir != "" {
		note("session.work_dir is not taken: each agent has a workspace of its own")
	}
	if r.Session.Sync != nil {
		note("session.needs_pre_sync is not taken: the checkout of a run is that of its branch")
	}
	t.environment(&b, r.Env, words, note)
	if len(r.Health) > 0 {
		b.WriteString("\n[health]\n")
		for _, key := range slices.Sorted(maps.Keys(r.Health)) {
			switch v := r.Health[key].(type) {
			case string:
				fmt.Fprintf(&b, "%s = %s\n", key, text(v))
			case int64:
				fmt.Fprintf(&b, "%s = %d\n", key, v)
			default:
				note("health.%s is not taken", key)
			}
		}
	}
	to := path.Join("agents", "roles", name+".toml")
	if project != "" {
		to = path.Join("agents", project, name, "role.toml")
	}
	if err := agentfile.CheckRoleEntry(path.Base(to), name, []byte(b.String())); err != nil {
		t.refuse("role", name, at, first(err))
		return
	}
	t.file("role", strings.TrimPrefix(project+"/"+name, "/"), at, to, []byte(b.String()), notes...)
}

// environment writes the variables that the program is for itself. Those of Gas Town name what the station says.
func (t town) environment(b *strings.Builder, env map[string]string, words *strings.Replacer,
	note func(string, ...any)) {
	head := "\n[env]\n"
	for _, key := range slices.Sorted(maps.Keys(env)) {
		if strings.HasPrefix(key, "GT_") || strings.HasPrefix(key, "BD_") {
			note("env.%s is not taken: INSPAN_AGENT has the address", key)
			continue
		}
		fmt.Fprintf(b, "%s%s = %s\n", head, text(key), text(words.Replace(env[key])))
		head = ""
	}
}

// starts makes the definition of what a role starts; empty where that is not known.
func (t town) starts(at, name, command string, note func(string, ...any)) string {
	fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(command), "exec "))
	if len(fields) == 0 {
		note("it starts nothing that is named: set agent to a definition")
		return ""
	}
	program := path.Base(fields[0])
	preset, known := runtime.Presets()[program]
	if !known || strings.ContainsAny(command, ";&|$`<>\n") {
		note("start_command %q is not taken: set agent to a definition", command)
		return ""
	}
	if len(fields) > 1 {
		note("arguments of start_command are not taken: the runtime %s has its own", preset.Name)
	}
	network := ""
	if u, err := url.Parse(preset.Model.URL); err == nil && u.Host != "" {
		network = ", network: {enabled: true, allowed_hosts: [" + text(u.Hostname()) + "]}"
	} else {
		note("the sandbox of its definition reaches nothing: name the hosts of its provider in allowed_hosts")
	}
	file := fmt.Sprintf("---\nname: %s\ndescription: %s\nruntime: %s\ntools: [bash, read, write, edit, grep]\nsandbox: {mode: bwrap%s}\n---\nYou work on the repository in this directory.\n",
		text(name), text("Role "+name+" of a Gas Town"), preset.Name, network)
	if _, _, err := agentfile.Parse(name+".prompt", []byte(file)); err != nil {
		note("no definition was made: %v", first(err))
		return ""
	}
	to := path.Join("agents", name+".prompt")
	if before, there := t.Files[to]; there && string(before) != file {
		note("%s is made of another role: its definition stands", to)
		return name
	} else if !there {
		t.file("agent", name, at, to, []byte(file), "it runs "+preset.Name+" in a sandbox of mode bwrap: inspan runtimes check "+preset.Name)
	}
	return name
}
