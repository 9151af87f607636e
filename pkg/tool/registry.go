package tool

import (
	"fmt"
	"regexp"
	"slices"
	"sync"
)

// nameRule leaves the names that begin with mcp__ to the tools of MCP servers.
const nameRule = `^([a-z0-9_]{1,64}|mcp__[A-Za-z0-9_-]{1,59})$`

var named = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(nameRule) })

// Registry is a fixed set of tools by name. The zero value is empty; it is safe for concurrent use once built.
type Registry struct {
	tools   map[string]Tool
	schemas map[string]*checker
	names   []string
}

// NewRegistry checks names and schemas and refuses duplicates.
func NewRegistry(tools ...Tool) (*Registry, error) {
	r := &Registry{tools: make(map[string]Tool, len(tools)), schemas: make(map[string]*checker, len(tools))}
	for _, t := range tools {
		spec := t.Spec()
		name := spec.Name
		if !named().MatchString(name) {
			return nil, fmt.Errorf("tool name %q: want %s", name, nameRule)
		}
		if _, dup := r.tools[name]; dup {
			return nil, fmt.Errorf("tool %q is registered twice", name)
		}
		schema, err := schemas.compile(spec.Input)
		if err != nil {
			return nil, fmt.Errorf("schema of tool %q: %w", name, err)
		}
		r.tools[name], r.schemas[name] = t, schema
		r.names = append(r.names, name)
	}
	slices.Sort(r.names)
	return r, nil
}

// Get returns the tool of that name.
func (r *Registry) Get(name string) (Tool, bool) {
	t, ok := r.tools[name]
	return t, ok
}

// Names returns the names in order.
func (r *Registry) Names() []string { return slices.Clone(r.names) }
