package service

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/inspan/inspan/internal/agentfile"
)

// Names of the layers of the cascade, the most ephemeral first (ID-2).
const (
	FromFlag        = "flag"
	FromEnvironment = "environment"
	FromProject     = "project"
	FromSystem      = "system"
	FromDefault     = "built-in"
)

// Where configuration files are.
const (
	// ConfigVariable names one file that is read in place of all others; "none" reads none.
	ConfigVariable = "INSPAN_CONFIG"
	// ConfigFile is the name of configuration files, ProjectFolder the folder that a project has it in.
	ConfigFile    = "config.yaml"
	ProjectFolder = ".inspan"
)

// Origin is a value and where it stands.
type Origin struct {
	// Layer is one of the names above.
	Layer string `json:"layer"`
	// Where is "file:line", the name of a variable or of a flag; empty for what is built in.
	Where string `json:"where,omitempty"`
	// Value as text; "***" for a secret.
	Value string `json:"value"`
}

// Layers are the configuration files that hold here, read once at start. The zero value has none.
type Layers struct {
	// files, the one of the project before the one of the system.
	files []file
	// Warnings are about the files.
	Warnings []agentfile.Warning
}

type file struct {
	layer, path string
	// base is the folder that paths in it are relative to.
	base string
	// text is the file as it was read.
	text []byte
	agentfile.Settings
}

// Files are the paths of the files that were read, by layer.
func (l Layers) Files() map[string]string {
	out := map[string]string{}
	for _, f := range l.files {
		out[f.layer] = f.path
	}
	return out
}

// Project is the file of the project, if there is one, and its text as it was read.
func (l Layers) Project() (path string, text []byte) {
	for _, f := range l.files {
		if f.layer == FromProject {
			return f.path, f.text
		}
	}
	return "", nil
}

// SystemFile is where the configuration of this user is or would be: below XDG_CONFIG_HOME, else ~/.config. It is empty
// where there is no home.
func SystemFile() string {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "inspan", ConfigFile)
}

// ProjectFile is the nearest configuration of a project, from dir upwards, or empty.
func ProjectFile(dir string) string {
	for {
		path := filepath.Join(dir, ProjectFolder, ConfigFile)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

// Discover reads the configuration files that hold in the working directory. A file that is not there is none; one that
// cannot be read or understood is an error.
func Discover() (Layers, error) {
	var l Layers
	switch one := os.Getenv(ConfigVariable); one {
	case "":
	case "none":
		return l, nil
	default:
		return l, l.add(FromSystem, one, filepath.Dir(one), false)
	}
	dir, err := os.Getwd()
	if err != nil {
		return l, fmt.Errorf("find the project: %w", err)
	}
	var errs []error
	if path := ProjectFile(dir); path != "" {
		errs = append(errs, l.add(FromProject, path, filepath.Dir(filepath.Dir(path)), false))
	}
	if path := SystemFile(); path != "" {
		errs = append(errs, l.add(FromSystem, path, filepath.Dir(path), true))
	}
	return l, errors.Join(errs...)
}

// add reads one file. maybe lets it be absent.
func (l *Layers) add(layer, path, base string, maybe bool) error {
	info, err := os.Stat(path)
	if maybe && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > agentfile.MaxSettings) {
		err = fmt.Errorf("want a file of at most %d bytes", agentfile.MaxSettings)
	}
	if err != nil {
		return fmt.Errorf("configuration %s: %w", path, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("configuration %s: %w", path, err)
	}
	f, warnings, err := understand(layer, path, base, data, info.Mode())
	l.Warnings = append(l.Warnings, warnings...)
	if err != nil {
		return err
	}
	l.files = append(l.files, f)
	return nil
}

// understand reads the text of a file; mode is that of the file.
func understand(layer, path, base string, data []byte, mode fs.FileMode) (file, []agentfile.Warning, error) {
	f := file{layer: layer, path: path, text: data}
	var err error
	if f.base, err = filepath.Abs(base); err != nil {
		return f, nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	var warnings []agentfile.Warning
	if f.Settings, warnings, err = agentfile.ReadSettings(path, data, forms(Table())); err != nil {
		return f, nil, err
	}
	secrets, err := f.check()
	if err == nil && len(secrets) > 0 && mode.Perm()&0o044 != 0 {
		warnings = append(warnings, agentfile.Warning{Code: "secret", File: path, Path: secrets[0],
			Message: fmt.Sprintf("holds a secret and others can read the file (mode %04o)", mode.Perm()),
			Hint:    "chmod 600 " + path})
	}
	return f, warnings, err
}

// check refuses what the file of a project may not say, makes paths absolute, and returns the keys of secrets.
func (f *file) check() (secrets []string, err error) {
	rows := map[string]Setting{}
	for _, s := range table() {
		rows[s.Key] = s
	}
	var errs []error
	for i := range f.Entries {
		e := &f.Entries[i]
		s := rows[e.Key]
		if s.Secret {
			secrets = append(secrets, e.Key)
		}
		fault := &agentfile.Error{Code: agentfile.CodeValue, File: f.path, Line: e.Line, Path: e.Key}
		if f.layer == FromProject && !s.Project {
			fault.Message = "a project may not set this: it could be somebody else's project"
			fault.Hint = "put it into " + SystemFile()
			if s.Variable != "" {
				fault.Hint += " or set " + s.Variable
			}
			errs = append(errs, fault)
			continue
		}
		if s.Path && e.Value != "" {
			e.Value = f.absolute(e.Value)
			if rel, err := filepath.Rel(f.base, e.Value); f.layer == FromProject && (err != nil || !filepath.IsLocal(rel)) {
				fault.Message, fault.Expected, fault.Actual = "the path leaves the project", "a path below "+f.base, e.Value
				errs = append(errs, fault)
			}
		}
	}
	return secrets, errors.Join(errs...)
}

func (f *file) absolute(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(f.base, path)
}

// environment finds the variable that is in force for a setting. path is the file that holds the value, if one does.
func (s Setting) environment() (name, value, path string, ok bool) {
	if s.Variable == "" {
		return "", "", "", false
	}
	for _, name := range []string{s.Variable, s.Standard} {
		if v := os.Getenv(name); name != "" && v != "" {
			return name, v, "", true
		}
	}
	if s.Secret {
		for _, name := range []string{s.Variable + "_FILE", strings.TrimPrefix(s.Variable, Prefix+"_") + "_FILE"} {
			if p := os.Getenv(name); p != "" {
				return name, "", p, true
			}
		}
	}
	_, ok = os.LookupEnv(s.Variable) // set to nothing
	return s.Variable, "", "", ok && !s.Secret
}

// origins of a setting, the one in force first. Secrets are not read.
func (l Layers) origins(s Setting) []Origin {
	var out []Origin
	if name, value, _, ok := s.environment(); ok {
		out = append(out, Origin{FromEnvironment, name, value})
	}
	for _, f := range l.files {
		for _, e := range f.Entries {
			if e.Key == s.Key || s.Secret && e.Key == s.Key+fileSuffix {
				out = append(out, Origin{f.layer, fmt.Sprintf("%s:%d", f.path, e.Line), e.Value})
			}
		}
	}
	out = append(out, Origin{FromDefault, "", s.Default})
	if s.Secret {
		for i := range out {
			if out[i].Layer != FromDefault {
				out[i].Value = "***"
			}
		}
	}
	return out
}

// Lookup returns what is in force for a variable that is no secret, or fallback where neither the environment nor a
// file says anything, or nothing.
func (l Layers) Lookup(variable, fallback string) string {
	for _, s := range table() {
		if s.Variable == variable {
			if o := l.origins(s)[0]; o.Layer != FromDefault && o.Value != "" && !s.Secret {
				return o.Value
			}
		}
	}
	return fallback
}

// Effective is a setting and all that is said of it, what is in force first.
type Effective struct {
	Setting
	Origins []Origin
}

// Explain lists all settings.
func (l Layers) Explain() []Effective {
	table := Table()
	out := make([]Effective, len(table))
	for i, s := range table {
		out[i] = Effective{s, l.origins(s)}
	}
	return out
}

// entry is what the files say of a key.
func (l Layers) entry(key string) Origin {
	for _, f := range l.files {
		for _, e := range f.Entries {
			if e.Key == key {
				return Origin{f.layer, fmt.Sprintf("%s:%d", f.path, e.Line), e.Value}
			}
		}
	}
	return Origin{}
}

// stored is what the files say of a setting, and the key that says it. Of a secret it is the secret, also where the
// files name another file that holds it.
func (l Layers) stored(s Setting) (key string, o Origin, err error) {
	if o = l.entry(s.Key); o.Layer != "" || !s.Secret {
		return s.Key, o, nil
	}
	key = s.Key + fileSuffix
	if o = l.entry(key); o.Layer == "" {
		return key, o, nil
	}
	b, err := os.ReadFile(o.Value)
	if err != nil {
		return key, o, fmt.Errorf("%s: %s: %w", o.Where, key, err)
	}
	o.Value = string(b)
	return key, o, nil
}
