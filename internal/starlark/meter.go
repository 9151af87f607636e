package starlark

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Limits of values.
const (
	// maxIntBits is of a product, maxDigits of a text that becomes a number.
	maxIntBits, maxDigits = 256, 64
	// maxRange bounds the numbers of a range.
	maxRange = 100_000
	// cell is what a value counts for besides what it holds, in bytes.
	cell = 16
)

var errWork = errors.New("the expression looks at or makes too much")

// functions that an expression may call. Their arguments were charged.
var functions = []string{"abs", "all", "any", "bool", "dict", "enumerate", "float", "int", "len", "list", "max", "min",
	"range",
	"reversed", "sorted", "str", "tuple", "type", "zip"}

// cheap are those that take the same time for any value.
var cheap = []string{"bool", "len", "type"}

var constants = []string{"True", "False", "None"}

// meter is what one evaluation may still do.
type meter struct{ left int }

func (m *meter) spend(n int) error {
	if n < 0 || n > m.left {
		m.left = 0
		return errWork
	}
	m.left -= n
	return nil
}

// charge spends the size of a value as it would be written out: what is in it twice counts twice.
func (m *meter) charge(v starlark.Value, depth int) error {
	if depth > maxDepth {
		return errWork
	}
	switch v := v.(type) {
	case starlark.String:
		return m.spend(cell + len(v))
	case *starlark.Dict:
		for _, item := range v.Items() {
			if err := m.charge(item, depth+1); err != nil {
				return err
			}
		}
	case starlark.Indexable: // lists, tuples, ranges
		if err := m.spend(cell * (v.Len() + 1)); err != nil {
			return err
		}
		for i := range v.Len() {
			if err := m.charge(v.Index(i), depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return m.spend(cell)
}

type builtin = func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error)

// environment is what an expression can name besides its values: the functions, and the operations that guard put in.
func (m *meter) environment() starlark.StringDict {
	env := starlark.StringDict{}
	add := func(name string, f builtin) { env[name] = starlark.NewBuiltin(name, f) }
	for _, name := range functions {
		env[name] = starlark.Universe[name]
	}
	env["int"] = starlark.NewBuiltin("int", short)
	env["range"] = starlark.NewBuiltin("range", bounded)
	add("(charge)", func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple,
		_ []starlark.Tuple) (starlark.Value, error) {
		return args[0], m.charge(args[0], 0)
	})
	add("(field)", func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value,
		error) {
		return field(args[0], args[1])
	})
	for op, sign := range operators {
		add("("+sign+")", func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple,
			_ []starlark.Tuple) (starlark.Value, error) {
			return m.binary(op, args[0], args[1])
		})
	}
	return env
}

// short is int for texts that a person would read.
func short(t *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	if s, ok := args.Index(0).(starlark.String); ok && len(s) > maxDigits {
		return nil, fmt.Errorf("int: the text has %d characters, the limit is %d", len(s), maxDigits)
	}
	return starlark.Call(t, starlark.Universe["int"], args, nil)
}

func bounded(t *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	v, err := starlark.Call(t, starlark.Universe["range"], args, nil)
	if n := starlark.Len(v); err == nil && n > maxRange {
		return nil, fmt.Errorf("range: %d numbers, the limit is %d", n, maxRange)
	}
	return v, err
}

// field is x.name: what a dict has under that name.
func field(x, name starlark.Value) (starlark.Value, error) {
	d, ok := x.(*starlark.Dict)
	if !ok {
		return nil, fmt.Errorf("a value of type %s has nothing named %s", x.Type(), name)
	}
	v, found, err := d.Get(name)
	if err == nil && !found {
		const shown = 10
		var names []string
		for _, k := range d.Keys()[:min(shown, d.Len())] {
			names = append(names, k.String())
		}
		err = fmt.Errorf("there is no %s; there are %s", name, strings.Join(names, ", "))
	}
	return v, err
}

func (m *meter) binary(op syntax.Token, x, y starlark.Value) (starlark.Value, error) {
	err := m.charge(x, 0)
	if d, ok := y.(*starlark.Dict); !ok || op != syntax.IN && op != syntax.NOT_IN || d == nil {
		err = errors.Join(err, m.charge(y, 0))
	}
	if err != nil {
		return nil, errWork
	}
	_, text := x.(starlark.String)
	switch op {
	case syntax.EQL, syntax.NEQ, syntax.LT, syntax.LE, syntax.GT, syntax.GE:
		is, err := starlark.Compare(op, x, y)
		return starlark.Bool(is), err
	case syntax.PERCENT:
		if text {
			return nil, errors.New("texts cannot be formatted here: join them with +")
		}
	case syntax.STAR:
		if err := m.product(x, y); err != nil {
			return nil, err
		}
	}
	return starlark.Binary(op, x, y)
}

// product refuses or charges what x * y makes.
func (m *meter) product(x, y starlark.Value) error {
	a, aInt := x.(starlark.Int)
	b, bInt := y.(starlark.Int)
	switch {
	case aInt && bInt:
		if a.BigInt().BitLen()+b.BigInt().BitLen() > maxIntBits {
			return errors.New("the product is too large")
		}
		return nil
	case aInt:
		x, b, bInt = y, a, true
	}
	n := starlark.Len(x)
	if !bInt || n <= 0 {
		return nil
	}
	times, ok := b.Int64()
	if !ok || times > int64(m.left) {
		return errWork
	}
	if times <= 0 {
		return nil
	}
	return m.spend(cell * n * int(times))
}

func known(given map[string]bool) string {
	var names []string
	for n := range given {
		names = append(names, n)
	}
	slices.Sort(names)
	return strings.Join(append(names, functions...), ", ")
}
