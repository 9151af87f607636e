package service

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"reflect"
	"strings"

	"github.com/kelseyhightower/envconfig"

	"github.com/inspan/inspan/internal/secret"
)

// Config is the settings of all services together, for a station in one process. A program of one service reads only
// its own sections: the Config of its folder below. Each is read once, in main. The standard names NATS_URL,
// NATS_CREDS, ANTHROPIC_API_KEY ... are read too where no INSPAN_ one is set, and configuration files where no variable
// is.
type Config struct {
	Base
	Standalone
	Planning
	Models
	Gates
	Approvals
	Live
	Workspaces
	Capture
	Sandboxes
	Calls
	Docker
	Remote
	MicroVM
	Interpreted
	GitWork
	Archives
	Doors
	Messages
	Forwarding
}

// Prefix of the variables.
const Prefix = "INSPAN"

// FromEnv reads and checks the configuration of the environment alone; Layers.Config reads configuration files too.
func FromEnv() (Config, error) { return Layers{}.Config() }

// Config reads the settings of all services.
func (l Layers) Config() (Config, error) {
	var c Config
	return c, l.Load(&c)
}

// Load reads the settings of a program from the environment and the files, and checks them. cfg points to a struct that
// embeds sections. Of the settings of other programs it reads the secrets alone, so that they are masked.
func (l Layers) Load(cfg any) error {
	if err := envconfig.Process("", cfg); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	into := reflect.ValueOf(cfg).Elem()
	from, err := fill(l, into)
	if err != nil {
		return err
	}
	for section := range sections(into) {
		switch s := section.Addr().Interface().(type) {
		case *Planning:
			for _, f := range l.files {
				s.AgentDefaults = s.AgentDefaults.Over(f.Defaults)
			}
		case *Base:
			s.Masked = l.secrets()
		}
	}
	if err = check(into); err != nil && len(from) > 0 {
		err = fmt.Errorf("%w\n(from files: %s)", err, strings.Join(from, "; "))
	}
	return err
}

// fill gives the fields the values that envconfig does not know of, and returns which came from files.
func fill(l Layers, into reflect.Value) (from []string, err error) {
	fields := fieldsOf(into)
	for _, s := range serviceSettings() {
		field, ok := fields[s.name]
		if !ok {
			continue
		}
		name, value, path, ok := s.environment()
		switch {
		case ok && path != "":
			b, err := os.ReadFile(path)
			if err != nil {
				return from, fmt.Errorf("%s: %w", name, err)
			}
			value = string(b)
		case ok && name == s.Variable:
			continue // envconfig has read it
		case !ok:
			key, o, err := l.stored(s)
			if err != nil {
				return from, err
			}
			if o.Layer == "" {
				continue
			}
			name, value = o.Where+": "+key, o.Value
			from = append(from, s.Variable+" is "+key+" at "+o.Where)
		}
		if err := assign(field, value); err != nil {
			if s.Secret {
				err = errors.New("the value is not permitted")
			}
			return from, fmt.Errorf("%s: %w", name, err)
		}
	}
	return from, nil
}

// secrets are those of all programs, as far as this one is given them.
func (l Layers) secrets() []secret.Value {
	var all Config
	fields := fieldsOf(reflect.ValueOf(&all).Elem())
	for _, s := range serviceSettings() {
		if !s.Secret {
			continue
		}
		_, value, path, ok := s.environment()
		if ok && path != "" {
			b, err := os.ReadFile(path)
			if err != nil {
				continue // it is the secret of another program, or Load has failed
			}
			value = string(b)
		} else if !ok {
			_, o, err := l.stored(s)
			if err != nil {
				continue // as above
			}
			value = o.Value
		}
		fields[s.name].Set(reflect.ValueOf(secret.New(value)))
	}
	found, _ := Secrets(&all) // a malformed list is an error of the program that reads it
	return found
}

// fieldsOf are the settings that cfg or one of its sections has, by the names of their fields.
func fieldsOf(cfg reflect.Value) map[string]reflect.Value {
	fields := map[string]reflect.Value{}
	add := func(section reflect.Value) {
		for i := range section.NumField() {
			if f := section.Type().Field(i); f.Tag.Get("envconfig") != "" {
				fields[f.Name] = section.Field(i)
			}
		}
	}
	for section := range sections(cfg) {
		add(section)
	}
	add(cfg)
	return fields
}

// sections are the structs that cfg embeds, at any depth.
func sections(cfg reflect.Value) iter.Seq[reflect.Value] {
	return func(yield func(reflect.Value) bool) { walk(cfg, yield) }
}

func walk(cfg reflect.Value, yield func(reflect.Value) bool) bool {
	for i := range cfg.NumField() {
		if cfg.Type().Field(i).Anonymous && !(yield(cfg.Field(i)) && walk(cfg.Field(i), yield)) {
			return false
		}
	}
	return true
}

// Secrets are all values of a configuration that no tool and no hook is shown. cfg is as for Load.
func Secrets(cfg any) (found []secret.Value, err error) {
	for section := range sections(reflect.ValueOf(cfg).Elem()) {
		at := section.Addr().Interface()
		if b, ok := at.(*Base); ok {
			found = append(found, b.Masked...)
		}
		for i := range section.NumField() {
			if v, ok := section.Field(i).Interface().(secret.Value); ok && !v.Empty() {
				found = append(found, v)
			}
		}
		if lists, ok := at.(interface {
			masked() ([]secret.Value, error)
		}); ok {
			more, wrong := lists.masked()
			found, err = append(found, more...), errors.Join(err, wrong)
		}
	}
	return found, err
}

// Row of the configuration reference.
type Row struct{ Name, Default, Doc, Key string }

// Reference lists the variables for docs/config.md, in the order of the struct.
func Reference() []Row {
	var rows []Row
	for _, s := range serviceSettings() {
		rows = append(rows, Row{s.Variable, s.Default, s.Doc, s.Key})
	}
	return rows
}

// Variables are the names of those that a program reads; cfg is as for Load.
func Variables(cfg any) []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeOf(cfg).Elem()) {
		if name := f.Tag.Get("envconfig"); name != "" {
			names = append(names, name)
		}
	}
	return names
}
