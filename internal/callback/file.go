package callback

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/mail"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/inspan/inspan/internal/notify"
	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/pkg/events"
)

// Kind is how a callback reaches its receiver.
type Kind string

// The kinds of callbacks.
const (
	// Webhook is a signed call as Standard Webhooks says.
	Webhook Kind = "webhook"
	// Slack is a call of an incoming webhook of Slack, or of what takes the same.
	Slack Kind = "slack"
	// Mail is a message by SMTP.
	Mail Kind = "mail"
)

const (
	// Ext is the ending of the names of files of callbacks.
	Ext = ".toml"
	// maxTargets is how many a folder has, maxFile the bytes of one, maxListed the entries of a list in it.
	maxTargets = 64
	maxFile    = 64 << 10
	maxListed  = 64
	// minKey is the fewest bytes of a key that signs.
	minKey = 16
)

// File is what the file of a callback says.
type File struct {
	Kind Kind `toml:"kind"`
	// On lists what is called for: completed, failed, gate, paused, reminder.
	On []notify.Kind `toml:"on"`
	// Agents and Projects whose runs are meant; empty for all.
	Agents   []string `toml:"agents,omitempty"`
	Projects []string `toml:"projects,omitempty"`
	// Groups are those whose reminders are meant, once a gate was escalated to one of them; empty for all reminders.
	Groups []string `toml:"groups,omitempty"`
	// People whose gates are meant, and whose runs: those that were asked for in one of these names. A deputy gets what
	// is for the person who is away, too. Empty for all.
	People []string `toml:"people,omitempty"`
	// URL of webhook and slack, which may be secret:NAME, and Secret that signs calls of webhook.
	URL    string `toml:"url,omitempty"`
	Secret string `toml:"secret,omitempty"`
	// Output has webhook send the output of the run, too.
	Output bool `toml:"output,omitempty"`
	// Private lets the callback reach private and loopback addresses, and http without TLS.
	Private bool `toml:"private,omitempty"`
	// Server, From, To, User, Password and TLS are of mail. TLS is starttls, tls or none.
	Server   string   `toml:"server,omitempty"`
	From     string   `toml:"from,omitempty"`
	To       []string `toml:"to,omitempty"`
	User     string   `toml:"user,omitempty"`
	Password string   `toml:"password,omitempty"`
	TLS      string   `toml:"tls,omitempty"`
}

// Target is a callback that is set up.
type Target struct {
	Name string
	File File
	// url, key and password are what the file names, secrets read.
	url, key, password secret.Value
}

var nameRule = pattern.New(`^[a-z0-9][a-z0-9-]{0,31}$`)

// Load reads the callbacks of a folder, by name, and their secrets from the files of another. The error joins what is
// wrong with each.
func Load(dir, secrets string) ([]Target, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("folder of callbacks: %w", err)
	}
	defer func() { _ = root.Close() }() // it was only read
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("folder of callbacks: %w", err)
	}
	var all []Target
	var errs []error
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), Ext)
		if !ok {
			continue
		}
		t, err := read(root, name, secrets)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", filepath.Join(dir, e.Name()), err))
			continue
		}
		all = append(all, t)
	}
	if len(all) > maxTargets {
		errs = append(errs, fmt.Errorf("%s: %d callbacks, the limit is %d", dir, len(all), maxTargets))
	}
	return all, errors.Join(errs...)
}

func read(root *os.Root, name, secrets string) (Target, error) {
	if !nameRule.MatchString(name) {
		return Target{}, fmt.Errorf("name the file with 1 to 32 characters of a-z 0-9 and -, and %s", Ext)
	}
	info, err := root.Stat(name + Ext)
	if err != nil {
		return Target{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return Target{}, fmt.Errorf("want a file of at most %d bytes", maxFile)
	}
	b, err := root.ReadFile(name + Ext)
	if err != nil {
		return Target{}, err
	}
	return Parse(name, b, func(ref string) (string, error) { return secret.FromFolder(secrets, ref) })
}

// Parse reads the file of a callback. find finds what a reference to a secret stands for.
func Parse(name string, text []byte, find func(ref string) (string, error)) (Target, error) {
	t := Target{Name: name}
	d := toml.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&t.File); err != nil {
		if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok && len(strict.Errors) > 0 {
			line, _ := strict.Errors[0].Position()
			return t, fmt.Errorf("line %d: the key %s is not known; docs/callbacks.md lists the keys", line,
				strings.Join(strict.Errors[0].Key(), "."))
		}
		return t, err
	}
	if err := t.File.check(); err != nil {
		return t, err
	}
	return t, t.secrets(find)
}

// check returns what is wrong with what is no secret.
func (f File) check() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	kinds := []notify.Kind{notify.Completed, notify.Failed, notify.Gate, notify.Paused, notify.Reminder}
	for _, k := range f.On {
		if !slices.Contains(kinds, k) {
			fail("on: %q is none of %v", k, kinds)
		}
	}
	if len(f.On) == 0 || len(f.On) > len(kinds) {
		fail("on lists nothing, or too much: name some of %v", kinds)
	}
	if max(len(f.Agents), len(f.Projects), len(f.To), len(f.Groups), len(f.People)) > maxListed {
		fail("agents, projects, groups, people and to have at most %d entries each", maxListed)
	}
	for _, name := range f.People {
		if err := events.CheckID("people", name); err != nil {
			errs = append(errs, err)
		}
	}
	ofMail := f.Server != "" || f.From != "" || len(f.To) > 0 || f.User != "" || f.Password != "" || f.TLS != ""
	switch f.Kind {
	case Webhook, Slack:
		if ofMail {
			fail("server, from, to, user, password and tls are of the kind mail")
		}
		if f.URL == "" {
			fail("url: where to call")
		}
		if (f.Kind == Webhook) != secret.IsRef(f.Secret) || f.Kind == Slack && f.Secret != "" {
			fail("secret: webhook signs with secret:NAME, where NAME is a file of the folder INSPAN_GATEWAY_SECRETS; slack does not sign")
		}
		if f.Kind == Slack && f.Output {
			fail("output is of the kind webhook: messages for people have one line")
		}
	case Mail:
		if f.URL != "" || f.Secret != "" || f.Output {
			fail("url, secret and output are of the kind webhook")
		}
		errs = append(errs, f.mail())
	default:
		fail("kind %q is none of webhook, slack and mail", f.Kind)
	}
	return errors.Join(errs...)
}

// mail returns what is wrong with the settings of mail.
func (f File) mail() error {
	var errs []error
	if host, port, err := net.SplitHostPort(f.Server); err != nil || host == "" || port == "" {
		errs = append(errs, errors.New("server: want HOST:PORT of an SMTP server, such as smtp.example.com:587"))
	}
	for _, a := range append([]string{f.From}, f.To...) {
		if at, err := mail.ParseAddress(a); err != nil || at.Address != a {
			errs = append(errs, fmt.Errorf("%q is no address such as ann@example.com", a))
		}
	}
	if len(f.To) == 0 {
		errs = append(errs, errors.New("to: who gets it"))
	}
	if (f.User == "") != (f.Password == "") || f.Password != "" && !secret.IsRef(f.Password) {
		errs = append(errs, errors.New("user and password go together, and password is secret:NAME"))
	}
	switch {
	case f.TLS == "none" && f.User != "":
		errs = append(errs, errors.New("tls: none would send the password in the clear"))
	case f.TLS == "none" && !f.Private:
		errs = append(errs, errors.New("tls: none is for servers of your own network: add private = true"))
	case !slices.Contains([]string{"starttls", "tls", "none"}, f.TLS):
		errs = append(errs, errors.New("tls: want starttls (often port 587), tls (465) or none"))
	}
	return errors.Join(errs...)
}

// secrets reads those that the file names.
func (t *Target) secrets(find func(ref string) (string, error)) error {
	at := t.File.URL
	for _, s := range []struct {
		ref string
		to  *secret.Value
	}{{t.File.URL, &t.url}, {t.File.Secret, &t.key}, {t.File.Password, &t.password}} {
		if !secret.IsRef(s.ref) {
			continue
		}
		value, err := find(s.ref)
		if err != nil {
			return err
		}
		*s.to = secret.New(value)
		if s.to == &t.url {
			at = value
		}
	}
	if t.File.Kind == Mail {
		return nil
	}
	if t.url.Empty() {
		t.url = secret.New(at)
	}
	u, err := url.Parse(t.url.Reveal())
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return errors.New("url: want https://HOST/PATH without a user")
	case u.Scheme != "https" && (u.Scheme != "http" || !t.File.Private):
		return errors.New("url: want https; http is for receivers in your own network, with private = true")
	}
	if t.File.Kind == Slack {
		return nil
	}
	key := t.key.Reveal()
	if text, ok := strings.CutPrefix(key, "whsec_"); ok {
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return errors.New("the secret begins with whsec_ and goes on with something that is no base64")
		}
		key = string(b)
	}
	if len(key) < minKey {
		return fmt.Errorf("the secret has less than %d bytes: it could be guessed", minKey)
	}
	t.key = secret.New(base64.StdEncoding.EncodeToString([]byte(key))) // bytes of any kind, which New would trim
	return nil
}
