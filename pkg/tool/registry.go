package tool

import (
	"fmt"
	"regexp"
	"slices"
)

var nameRule = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)

// Registry is a fixed set of tools by name. The zero value is empty; it is safe for concurrent use once built.
type Registry struct {
	tools map[string]Tool
	names []string
}

// NewRegistry checks names and refuses duplicates.
func NewRegistry(tools ...Tool) (*Registry, error) {
	r := &Registry{tools: make(map[string]Tool, len(tools))}
	for _, t := range tools {
		name := t.Spec().Name
		if !nameRule.MatchString(name) {
			return nil, fmt.Errorf("tool name %q: want %s", name, nameRule)
		}
		if _, dup := r.tools[name]; dup {
			return nil, fmt.Errorf("tool %q is registered twice", name)
		}
		r.tools[name] = t
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
