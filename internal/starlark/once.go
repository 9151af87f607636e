package starlark

import (
	"maps"
	"slices"
)

// Once is the value of an expression that is evaluated once, within the limits of conditions.
func Once(source string, values map[string]any) (any, error) {
	e, err := Parse(source, slices.Sorted(maps.Keys(values))...)
	if err != nil {
		return nil, err
	}
	return e.Eval(values, Bounded)
}
