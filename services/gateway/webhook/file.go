package webhook

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/internal/payload"
	"github.com/inspan/inspan/internal/secret"
)

const (
	// Ext is the ending of the names of files of webhooks.
	Ext = ".toml"
	// MaxHooks is how many a folder has, maxFile the size of one in bytes.
	MaxHooks = 256
	maxFile  = 64 << 10
	// minSecret is the fewest bytes of a secret.
	minSecret = 16
	// maxListed bounds the events and the variables of a webhook.
	maxListed = 64
	// standardPrefix begins the secrets of Standard Webhooks, which are base64.
	standardPrefix = "whsec_"
)

// File is what the file of a webhook says.
type File struct {
	Kind Kind `toml:"kind"`
	// Secret is secret:NAME, where NAME is a file of the folder of secrets.
	Secret string   `toml:"secret"`
	Events []string `toml:"events"`
	// Event is where a payload of hmac or standard-webhooks names what happened; "type" where it is left out.
	Event string `toml:"event,omitempty"`
	// Header, Prefix and Encoding say where hmac has its signature.
	Header   string `toml:"header,omitempty"`
	Prefix   string `toml:"prefix,omitempty"`
	Encoding string `toml:"encoding,omitempty"`

	// Agent that does the work; the others are templates over the payload.
	Agent     string            `toml:"agent"`
	Task      string            `toml:"task"`
	Session   string            `toml:"session,omitempty"`
	Repo      string            `toml:"repo,omitempty"`
	Ref       string            `toml:"ref,omitempty"`
	Autonomy  int               `toml:"autonomy,omitempty"`
	Variables map[string]string `toml:"variables,omitempty"`
}

var (
	nameRule   = pattern.New(`^[a-z0-9][a-z0-9-]{0,31}$`)
	headerRule = pattern.New(`^[A-Za-z0-9-]{1,64}$`)
)

// Load reads the webhooks of a folder, by name, and their secrets from the files of another. The error joins what is
// wrong with each.
func Load(dir, secrets string) ([]*Hook, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("folder of webhooks: %w", err)
	}
	defer func() { _ = root.Close() }() // it was only read
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("folder of webhooks: %w", err)
	}
	var hooks []*Hook
	var errs []error
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), Ext)
		if !ok {
			continue
		}
		h, err := read(root, name, secrets)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", filepath.Join(dir, e.Name()), err))
			continue
		}
		hooks = append(hooks, h)
	}
	if len(hooks) > MaxHooks {
		errs = append(errs, fmt.Errorf("%s: %d webhooks, the limit is %d", dir, len(hooks), MaxHooks))
	}
	return hooks, errors.Join(errs...)
}

func read(root *os.Root, name, secrets string) (*Hook, error) {
	if !nameRule.MatchString(name) {
		return nil, fmt.Errorf("name the file with 1 to 32 characters of a-z 0-9 and -, and %s", Ext)
	}
	info, err := root.Stat(name + Ext)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("want a file of at most %d bytes", maxFile)
	}
	b, err := root.ReadFile(name + Ext)
	if err != nil {
		return nil, err
	}
	return parse(name, b, func(ref string) (string, error) { return secret.FromFolder(secrets, ref) })
}

// parse reads the file of a webhook. secret finds what a reference stands for.
func parse(name string, text []byte, secret func(ref string) (string, error)) (*Hook, error) {
	var f File
	d := toml.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok && len(strict.Errors) > 0 {
			line, _ := strict.Errors[0].Position()
			return nil, fmt.Errorf("line %d: the key %s is not known; docs/gateway.md lists the keys", line,
				strings.Join(strict.Errors[0].Key(), "."))
		}
		return nil, err
	}
	h := &Hook{Name: name, Kind: f.Kind, Events: f.Events, Agent: f.Agent, Autonomy: f.Autonomy, header: f.Header,
		prefix: f.Prefix, base64: f.Encoding == "base64"}
	if err := errors.Join(f.check(), h.templates(f)); err != nil {
		return nil, err
	}
	value, err := secret(f.Secret)
	if err == nil {
		h.secret, err = keyOf(f.Kind, value)
	}
	return h, err
}

// check returns what is wrong with what is neither a template nor the secret.
func (f File) check() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !slices.Contains(Kinds(), f.Kind) {
		fail("kind %q is none of %v", f.Kind, Kinds())
	}
	if len(f.Events) == 0 || len(f.Events) > maxListed || slices.Contains(f.Events, "") {
		fail(`events lists no event, an empty one or more than %d: name those that start a run, or "*" for all`, maxListed)
	}
	if f.Agent == "" || f.Task == "" {
		fail("agent and task are needed: who is to do what")
	}
	if f.Autonomy < 0 || f.Autonomy > 5 {
		fail("autonomy is %d, want 1 to 5", f.Autonomy)
	}
	if len(f.Variables) > maxListed {
		fail("%d variables, the limit is %d", len(f.Variables), maxListed)
	}
	if !secret.IsRef(f.Secret) {
		fail("secret: want secret:NAME, where NAME is a file of the folder INSPAN_GATEWAY_SECRETS, " +
			"and never the secret itself")
	}
	own := f.Header != "" || f.Prefix != "" || f.Encoding != ""
	switch {
	case f.Kind != HMAC && own:
		fail("header, prefix and encoding are of the kind hmac alone: %s knows its own", f.Kind)
	case f.Kind == HMAC && !headerRule.MatchString(f.Header):
		fail("header: name the header that has the signature, such as X-Signature-256")
	case f.Kind == HMAC && !slices.Contains([]string{"", "hex", "base64"}, f.Encoding):
		fail("encoding %q is neither hex nor base64", f.Encoding)
	case f.Event != "" && f.Kind != HMAC && f.Kind != Standard:
		fail("event is of the kinds hmac and standard-webhooks: %s names its events itself", f.Kind)
	}
	return errors.Join(errs...)
}

// templates reads those of a file.
func (h *Hook) templates(f File) (err error) {
	h.task, err = payload.ParseTask(payload.Texts{Task: f.Task, Session: f.Session, Repo: f.Repo, Ref: f.Ref,
		Variables: f.Variables})
	var wrong error
	if h.event, wrong = payload.ParsePlace(cmp.Or(f.Event, "type")); wrong != nil {
		err = errors.Join(err, fmt.Errorf("event: %w", wrong))
	}
	return err
}

// keyOf is the key that a secret stands for.
func keyOf(kind Kind, value string) ([]byte, error) {
	key := []byte(value)
	if text, ok := strings.CutPrefix(value, standardPrefix); ok && kind == Standard {
		var err error
		if key, err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil, fmt.Errorf("the secret begins with %s and goes on with something that is no base64", standardPrefix)
		}
	}
	if len(key) < minSecret {
		return nil, fmt.Errorf("the secret has less than %d bytes: it could be guessed", minSecret)
	}
	return key, nil
}

// Create makes the file of a webhook and that of a new secret, which it returns. Neither may be there.
func Create(dir, secrets, name string, f File) (secret string, err error) {
	b := make([]byte, secretBytes)
	_, _ = rand.Read(b) // it ends the process rather than to fail
	if secret = hex.EncodeToString(b); f.Kind == Standard {
		secret = standardPrefix + base64.StdEncoding.EncodeToString(b)
	}
	f.Secret = "secret:" + name
	text, err := toml.Marshal(f)
	if err != nil {
		return "", fmt.Errorf("webhook %s: %w", name, err)
	}
	if !nameRule.MatchString(name) {
		return "", fmt.Errorf("webhook %q: want 1 to 32 characters of a-z 0-9 and -", name)
	}
	if _, err := parse(name, text, func(string) (string, error) { return secret, nil }); err != nil {
		return "", fmt.Errorf("webhook %s: %w", name, err)
	}
	at := filepath.Join(secrets, name)
	if err := write(at, []byte(secret+"\n"), 0o700); err != nil {
		return "", err
	}
	if err := write(filepath.Join(dir, name+Ext), text, 0o755); err != nil {
		return "", errors.Join(err, os.Remove(at))
	}
	return secret, nil
}

// secretBytes are the random bytes of a secret that is made here.
const secretBytes = 32

// write makes a file that is not there yet, and its folder.
func write(path string, text []byte, folder os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), folder); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}
