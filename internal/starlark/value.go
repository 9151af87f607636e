package starlark

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"go.starlark.net/starlark"
)

// maxDepth is how deep values are nested.
const maxDepth = 100

// toStarlark makes a value of one as encoding/json makes them. A number without a fraction is an int.
func toStarlark(v any, depth int) (starlark.Value, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("the value is nested deeper than %d", maxDepth)
	}
	switch v := v.(type) {
	case nil:
		return starlark.None, nil
	case bool:
		return starlark.Bool(v), nil
	case int:
		return starlark.MakeInt(v), nil
	case int64:
		return starlark.MakeInt64(v), nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return starlark.MakeInt64(int64(v)), nil
		}
		return starlark.Float(v), nil
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return starlark.MakeInt64(i), nil
		}
		f, err := v.Float64()
		return starlark.Float(f), err
	case string:
		return starlark.String(v), nil
	case []any:
		list := make([]starlark.Value, len(v))
		for i := range v {
			var err error
			if list[i], err = toStarlark(v[i], depth+1); err != nil {
				return nil, err
			}
		}
		return starlark.NewList(list), nil
	case map[string]any:
		return dict(v, depth)
	}
	return nil, fmt.Errorf("a %T is no value of an expression", v)
}

func dict(v map[string]any, depth int) (starlark.Value, error) {
	d := starlark.NewDict(len(v))
	names := make([]string, 0, len(v))
	for name := range v {
		names = append(names, name)
	}
	slices.Sort(names) // the same order each time
	for _, name := range names {
		of, err := toStarlark(v[name], depth+1)
		if err == nil {
			err = d.SetKey(starlark.String(name), of)
		}
		if err != nil {
			return nil, err
		}
	}
	return d, nil
}

// toGo is the result of an expression. It is charged as if it were written out.
func (m *meter) toGo(v starlark.Value) (any, error) {
	if err := m.charge(v, 0); err != nil {
		return nil, err
	}
	return plain(v)
}

func plain(v starlark.Value) (any, error) {
	switch v := v.(type) {
	case starlark.NoneType:
		return nil, nil
	case starlark.Bool:
		return bool(v), nil
	case starlark.Int:
		i, ok := v.Int64()
		if !ok {
			return nil, fmt.Errorf("the number %s is too large", v)
		}
		return i, nil
	case starlark.Float:
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("%s is no number that can be recorded", v)
		}
		return float64(v), nil
	case starlark.String:
		return string(v), nil
	case *starlark.Dict:
		out := make(map[string]any, v.Len())
		for _, item := range v.Items() {
			key, ok := item[0].(starlark.String)
			if !ok {
				return nil, fmt.Errorf("a dict that is recorded has names for keys, not %s", item[0].Type())
			}
			of, err := plain(item[1])
			if err != nil {
				return nil, err
			}
			out[string(key)] = of
		}
		return out, nil
	case starlark.Indexable:
		out := make([]any, v.Len())
		for i := range out {
			of, err := plain(v.Index(i))
			if err != nil {
				return nil, err
			}
			out[i] = of
		}
		return out, nil
	}
	return nil, fmt.Errorf("a value of type %s cannot be recorded", v.Type())
}
