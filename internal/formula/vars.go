package formula

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/internal/pattern"
)

// Types of a variable.
const (
	TypeString  = "string"
	TypeInteger = "integer"
	TypeNumber  = "number"
	TypeBoolean = "boolean"
	// TypeArray is a list, given as JSON.
	TypeArray = "array"
)

// Var is a variable of a formula.
type Var struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
	// Default is nil where there is none.
	Default *string `json:"default,omitempty"`
	// Enum are the values that it may have; any if there are none.
	Enum []string `json:"enum,omitempty"`
	// unless are the variables that make it not required.
	unless []ref
	at     place
	path   string
}

var varName = pattern.New(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)

// variables reads a table of variables; a value in place of a table is the default.
func (f reader) variables(n *node) []Var {
	if n == nil || !f.is(n, isMap) {
		return nil
	}
	var out []Var
	for _, p := range n.pairs {
		v := Var{Name: p.key, Type: TypeString, at: p.at, path: join(n.path, p.key)}
		if !varName.MatchString(p.key) {
			f.add(p.at, v.path, CodeValue, "use A-Z a-z 0-9 _ and -, at most 64", "%s is no name of a variable",
				shown(p.key))
			continue
		}
		if p.value.kind == isMap {
			f.variable(&v, p.value)
		} else {
			v.Type = typeOf(p.value)
			f.byDefault(&v, p.value)
		}
		out = append(out, v)
	}
	return out
}

func (f reader) variable(v *Var, n *node) {
	f.keys(n, []string{"type", "description", "required", "required_unless", "default", "enum"}, nil)
	if t := f.oneOf(n.child("type"), TypeString, TypeInteger, TypeNumber, TypeBoolean, TypeArray); t != "" {
		v.Type = t
	}
	v.Required, v.unless = f.flag(n.child("required")), f.refs(n.child("required_unless"), MaxVars)
	if d := n.child("description"); d != nil && f.is(d, isText) {
		v.Description = d.text
	}
	for _, item := range f.list(n.child("enum"), maxKeys) {
		if text, ok := f.scalar(item); ok {
			v.Enum = append(v.Enum, text)
		}
	}
	if d := n.child("default"); d != nil {
		f.byDefault(v, d)
	}
	if v.Required && v.Default != nil {
		f.add(v.at, v.path, CodeValue, "leave one of them out", "a variable that is required has no use for a default")
	}
}

func (f reader) byDefault(v *Var, d *node) {
	text, ok := string(d.document()), v.Type == TypeArray && d.kind == isList
	if !ok {
		text, ok = f.scalar(d)
	}
	if !ok {
		return
	}
	if why := v.fault(text); why != "" {
		f.wrong(d, CodeType, "", "the default %s", why)
		return
	}
	v.Default = &text
}

// scalar is a value as a text.
func (f *faults) scalar(n *node) (string, bool) {
	if n.kind == isList || n.kind == isMap || n.kind == isNull {
		f.wrong(n, CodeType, "", "want a text, a number, true or false, got %s", n.kind)
		return "", false
	}
	return n.text, true
}

func typeOf(n *node) string {
	switch n.kind {
	case isInt:
		return TypeInteger
	case isNumber:
		return TypeNumber
	case isBool:
		return TypeBoolean
	case isList:
		return TypeArray
	case isNull, isText, isDate, isMap:
	}
	return TypeString
}

// fault says what is wrong with a value, or "".
func (v Var) fault(value string) string {
	var err error
	switch v.Type {
	case TypeInteger:
		_, err = strconv.ParseInt(strings.ReplaceAll(value, "_", ""), 10, 64)
	case TypeNumber:
		_, err = strconv.ParseFloat(strings.ReplaceAll(value, "_", ""), 64)
	case TypeBoolean:
		if value != "true" && value != "false" {
			err = strconv.ErrSyntax
		}
	case TypeArray:
		var list []any
		if err = json.Unmarshal([]byte(value), &list); err == nil && list == nil {
			err = strconv.ErrSyntax
		}
	}
	switch {
	case err != nil:
		return fmt.Sprintf("%s is no %s", shown(value), v.Type)
	case len(v.Enum) > 0 && !slices.Contains(v.Enum, value):
		return fmt.Sprintf("%s is none of %s", shown(value), strings.Join(v.Enum, ", "))
	case strings.ContainsRune(value, 0):
		return "contains a NUL character"
	}
	return ""
}

// resolve gives each variable its value. Those without one are left out.
func (f compiler) resolve(vars []Var, given map[string]string, file place) map[string]string {
	names := make([]string, len(vars))
	values, size := map[string]string{}, 0
	for i, v := range vars {
		names[i] = v.Name
		value, ok := given[v.Name]
		switch {
		case ok && len(value) > MaxVarBytes: // it is refused below, and not read
		case ok:
			if why := v.fault(value); why != "" {
				f.add(v.at, v.path, CodeType, "give another value with --var "+v.Name, "the value %s", why)
			}
		case v.Default != nil:
			value, ok = *v.Default, true
		case v.Required && !excused(v, given):
			f.add(v.at, v.path, CodeVariable, "give it with --var "+v.Name+"=VALUE",
				"the variable %s is required and has no value", v.Name)
			continue
		}
		if ok {
			values[v.Name] = value
			size += len(value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(names, name) {
			hint := "the formula has no variables"
			if len(names) > 0 {
				hint = didyoumean.Hint(name, names, "it has: "+strings.Join(names, ", "))
			}
			f.add(file, "", CodeReference, hint, "there is no variable %s", shown(name))
		}
		size += len(name)
	}
	if size > MaxVarBytes {
		f.add(file, "", CodeLimit, "put long material in a file of the workspace, and name the file",
			"the values of the variables have %d bytes, the limit is %d", size, MaxVarBytes)
	}
	return values
}

// typed adds the values of variables that expressions use: numbers, truths and lists as they are, all else as texts.
func typed(to map[string]json.RawMessage, vars []Var, uses []string,
	values map[string]string) map[string]json.RawMessage {
	for _, v := range vars {
		if !slices.Contains(uses, v.Name) {
			continue
		}
		if to == nil {
			to = map[string]json.RawMessage{}
		}
		value, ok := values[v.Name]
		raw := json.RawMessage(strings.ReplaceAll(value, "_", ""))
		if v.Type == TypeArray {
			raw = json.RawMessage(value)
		}
		if v.Type == TypeString || !json.Valid(raw) {
			raw, _ = json.Marshal(value)
		}
		if !ok {
			raw = json.RawMessage("null")
		}
		to[v.Name] = raw
	}
	return to
}

// excused reports whether one of the variables was given that make another one not required.
func excused(v Var, given map[string]string) bool {
	return slices.ContainsFunc(v.unless, func(r ref) bool { _, ok := given[r.name]; return ok })
}

// asJSON are values as one JSON object, with its keys in order.
func asJSON(values map[string]string) string {
	b, err := json.Marshal(values)
	if err != nil {
		return ""
	}
	return string(b)
}
